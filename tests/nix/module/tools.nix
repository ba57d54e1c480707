# A host with the module, and what the checks read from it.
{
  lib,
  pkgs,
  nixosSystem,
}:
rec {
  inherit lib pkgs;

  # Never built: evaluation asks only where its program is.
  packageOf =
    generation:
    pkgs.runCommand "helios-proxy" {
      meta.mainProgram = "helios-proxy";
      inherit generation;
    } "exit 1";

  evaluate =
    modules:
    nixosSystem {
      modules = modules ++ [
        {
          nixpkgs.hostPlatform = "x86_64-linux";
          system.stateVersion = "26.05";
        }
      ];
    };

  # `services.helios-proxy` = `options`, with a package.
  host = options: hostWith [ { services.helios-proxy = options; } ];
  hostWith =
    modules:
    (evaluate (
      [
        ../../../nixos/module.nix
        { services.helios-proxy.package = lib.mkDefault (packageOf "1"); }
      ]
      ++ modules
    )).config;
  # One proxy as people write it, and what is to be said besides.
  usual =
    more:
    host (
      lib.recursiveUpdate {
        enable = true;
        nodes.pg1 = "10.0.0.11";
      } more
    );

  # A host with these clusters, each with a package, a node and an address of its own unless it says otherwise.
  clusters =
    named:
    let
      numbered = lib.listToAttrs (lib.imap1 (i: name: lib.nameValuePair name i) (lib.attrNames named));
      cluster =
        name: given:
        lib.mkMerge [
          given
          {
            package = packageOf "1";
            bindAddresses = lib.mkDefault [ "10.1.0.${toString numbered.${name}}" ];
            admin.address = lib.mkDefault null;
            nodes = lib.mkDefault { pg1 = "10.0.0.11"; };
          }
        ];
    in
    hostWith [ { services.helios-proxy.clusters = lib.mapAttrs cluster named; } ];

  settingsOf = config: config.services.helios-proxy.settings;
  settingsOfCluster = config: name: config.services.helios-proxy.clusters.${name}.settings;
  serviceOf = config: config.systemd.services.helios-proxy;
  unitOf = config: config.systemd.units."helios-proxy.service".text;
  complaints =
    config: map (wrong: wrong.message) (lib.filter (checked: !checked.assertion) config.assertions);

  is = want: got: { inherit got want; };
  holds = is true;
}
