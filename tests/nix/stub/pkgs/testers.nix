# `runNixOSTest`: its nodes are evaluated as NixOS would, and written down for a driver that runs the script in guests.
{ lib, pkgs }:
let
  nixos = import ../nixos {
    inherit lib;
    pkgsFor = _: pkgs;
  };
  describe = import ../nixos/manifest.nix { inherit lib; };
  option =
    type: default:
    lib.mkOption {
      inherit type default;
    };
  tests = {
    options = {
      name = lib.mkOption { type = lib.types.str; };
      nodes = option (lib.types.lazyAttrsOf lib.types.deferredModule) { };
      defaults = option lib.types.deferredModule { };
      node.specialArgs = option (lib.types.lazyAttrsOf lib.types.raw) { };
      testScript = lib.mkOption {
        type = lib.types.either lib.types.str (lib.types.functionTo lib.types.str);
      };
      extraPythonPackages = option lib.types.raw (_: [ ]);
      globalTimeout = option lib.types.int 3600;
      skipLint = option lib.types.bool false;
      skipTypeCheck = option lib.types.bool false;
      meta = option lib.types.attrs { };
      passthru = option (lib.types.lazyAttrsOf lib.types.raw) { };
    };
  };
in
{
  # What scripts say to a guest and not to a machine of NixOS: the driver brings those words along.
  verbs = "";

  runNixOSTest =
    test:
    let
      inherit
        (lib.evalModules {
          modules = [
            tests
            test
          ];
          specialArgs = {
            inherit pkgs;
            hostPkgs = pkgs;
          };
        })
        config
        ;
      # Addresses as in NixOS tests: by the place in the order of names.
      number = lib.listToAttrs (
        lib.imap1 (i: name: lib.nameValuePair name i) (lib.attrNames config.nodes)
      );
      systems = lib.mapAttrs (
        name: node:
        nixos {
          specialArgs = config.node.specialArgs // {
            inherit nodes;
          };
          modules = [
            {
              networking.hostName = lib.mkDefault name;
              networking.primaryIPAddress = "192.168.1.${toString number.${name}}";
            }
            config.defaults
            node
          ];
        }
      ) config.nodes;
      nodes = lib.mapAttrs (_: system: system.config) systems;
      script =
        if lib.isFunction config.testScript then
          config.testScript { inherit nodes; }
        else
          config.testScript;
      manifest = pkgs.writeText "${config.name}.json" (
        builtins.toJSON {
          inherit (config) name globalTimeout;
          inherit (builtins) storeDir;
          testScript = script;
          # Built for its assertions.
          nodes = lib.mapAttrs (
            _: node: builtins.seq node.system.build.toplevel.drvPath (describe node)
          ) nodes;
        }
      );
    in
    # What is built is what the driver reads: it runs outside of any build.
    manifest // config.passthru // { inherit config manifest nodes; };
}
