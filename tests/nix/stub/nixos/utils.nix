# The argument `utils` of NixOS modules.
{ lib }:
let
  escapeExecArg = x: builtins.replaceStrings [ "%" "$" ] [ "%%" "$$" ] (builtins.toJSON (toString x));
in
{
  escapeSystemdExecArg = escapeExecArg;
  escapeSystemdExecArgs = lib.concatMapStringsSep " " escapeExecArg;
}
