# A whole system in the store: building it is what fails where an assertion does, or a file that it needs.
{
  lib,
  config,
  pkgs,
  ...
}:
let
  failed = lib.filter (a: !a.assertion) config.assertions;
  manifest = pkgs.writeText "manifest.json" (
    builtins.toJSON (import ./manifest.nix { inherit lib; } config)
  );
  toplevel =
    pkgs.runCommand "nixos-system-${config.networking.hostName}"
      {
        inherit manifest;
        passthru = { inherit manifest; };
      }
      ''
        mkdir "$out"
        ln -s "$manifest" "$out/manifest.json"
      '';
in
{
  options.system.build = lib.mkOption {
    type = lib.types.lazyAttrsOf lib.types.raw;
    default = { };
  };
  config.system.build.toplevel =
    if failed != [ ] then
      throw "\nFailed assertions:\n${lib.concatMapStringsSep "\n" (a: "- ${a.message}") failed}"
    else
      lib.foldl' (system: message: lib.warn message system) toplevel config.warnings;
}
