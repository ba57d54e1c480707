# `nix flake check`: the package with its tests, the linters, the module as a host has it, and each file of tests/vm.
{
  flake,
  pkgs,
  nixosSystem,
}:
let
  inherit (pkgs) lib;
  inherit (pkgs.stdenv.hostPlatform) system;
  package = flake.packages.${system}.default;

  # The package's own sources and dependencies, without building it.
  linted =
    name: tools: command:
    package.overrideAttrs (old: {
      pname = "helios-proxy-${name}";
      src = lib.cleanSource ../.;
      nativeBuildInputs = old.nativeBuildInputs or [ ] ++ tools;
      doCheck = false;
      buildPhase = command;
      installPhase = ''touch "$out"'';
    });

  # A host with the module, by either option path: its unit, and with that its file, which the package has checked.
  unitOf =
    name:
    (nixosSystem {
      inherit system;
      modules = [
        flake.nixosModules.${name}
        {
          services.${name} = {
            enable = true;
            nodes.pg1 = "10.0.0.11";
            readPort = 5433;
          };
          system.stateVersion = "26.05";
        }
        { services.helios-proxy = { inherit package; }; }
      ];
    }).config.systemd.units."helios-proxy.service".text;

  scenarios = lib.filterAttrs (name: _: lib.hasSuffix ".nix" name) (builtins.readDir ../tests/vm);
  scenario =
    file: _:
    lib.nameValuePair "vm-${lib.removeSuffix ".nix" file}" (
      pkgs.testers.runNixOSTest (
        import (../tests/vm + "/${file}") {
          helios = flake;
          inherit lib pkgs;
        }
      )
    );
in
{
  inherit package;
  clippy = linted "clippy" [ pkgs.clippy ] "cargo clippy --offline --all-targets -- -D warnings";
  fmt = linted "fmt" [ pkgs.rustfmt ] "cargo fmt --check";
  nixfmt = pkgs.runCommand "nixfmt" { nativeBuildInputs = [ pkgs.nixfmt ]; } ''
    find ${lib.cleanSource ../.} -name '*.nix' -exec nixfmt --check {} +
    touch "$out"
  '';
  module = pkgs.writeText "helios-proxy-units" (
    lib.concatMapStrings unitOf [
      "helios-proxy"
      "patroni-leader-proxy"
    ]
  );
}
// lib.mapAttrs' scenario scenarios
