# What is allowed and probably not meant. (What concerns the file alone, the daemon says itself.)
{ lib }:
# A place, as place.nix makes it.
{
  bound,
  cfg,
  option,
  ...
}:
let
  addresses = import ./addresses.nix { inherit lib; };

  texts =
    value:
    if builtins.isString value then
      [ value ]
    else if builtins.isAttrs value then
      lib.concatMap texts (lib.attrValues value)
    else if builtins.isList value then
      lib.concatMap texts value
    else
      [ ];
  folder = "\${CREDENTIALS_DIRECTORY}/";
  named = lib.concatMap (
    text: map (rest: lib.head (lib.splitString "/" rest)) (lib.tail (lib.splitString folder text))
  ) (texts cfg.settings);
  missing = lib.filter (name: !(cfg.credentials ? ${name})) (lib.unique named);

  listeners = lib.filter (claim: !claim.isAdmin) bound;
in
map (
  name:
  "${option}.settings names the credential ${name}, and ${option}.credentials has none of this name: the daemon would not start."
) missing
++
  lib.optional
    (
      cfg.openFirewall
      && listeners != [ ]
      && lib.all (claim: claim.at != null && addresses.isLoopback claim.at) listeners
    )
    "${option}.openFirewall opens ports at which only this host is listened to: add an address to ${option}.bindAddresses, or leave it out."
