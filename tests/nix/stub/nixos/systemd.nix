# systemd's units as NixOS has them: options, and the text they become.
{
  lib,
  config,
  pkgs,
  ...
}:
let
  inherit (lib) types;
  render = import ./unit-text.nix { inherit lib pkgs; };
  units = import ./unit-options.nix { inherit lib; };

  # Every kind of unit by its suffix, with the options it has beyond those of all.
  kinds = {
    service = units.service;
    socket = units.socket;
    target = { };
    timer = units.section "timerConfig";
    path = units.section "pathConfig";
    slice = units.section "sliceConfig";
  };
  ofKind =
    own:
    lib.mkOption {
      type = types.attrsOf (
        types.submodule {
          imports = [ units.common ];
          options = own;
        }
      );
      default = { };
    };
  textsOf =
    kind:
    lib.mapAttrs' (
      name: unit:
      lib.nameValuePair "${name}.${kind}" {
        inherit (unit) wantedBy requiredBy;
        text = render kind name unit;
      }
    ) (lib.filterAttrs (_: unit: unit.enable) config.systemd.${kind + "s"});
in
{
  options.systemd = lib.mapAttrs' (kind: own: lib.nameValuePair "${kind}s" (ofKind own)) kinds // {
    # name -> { text; wantedBy; requiredBy; }
    units = lib.mkOption {
      type = types.attrsOf types.attrs;
      default = { };
      internal = true;
    };
    tmpfiles.rules = lib.mkOption {
      type = types.listOf types.str;
      default = [ ];
    };
  };
  config = {
    systemd.units = lib.mergeAttrsList (map textsOf (lib.attrNames kinds));
    # NixOS has the same to say.
    warnings = lib.concatLists (
      lib.mapAttrsToList (
        name: unit:
        lib.optional (
          unit.reloadIfChanged && unit.reloadTriggers != [ ]
        ) "${name}.service: with reloadIfChanged, reloadTriggers are no other than restartTriggers"
      ) config.systemd.services
    );
  };
}
