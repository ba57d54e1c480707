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

  # The module with all its defaults, as far as a system can be built without a machine to boot.
  host = nixosSystem {
    inherit system;
    modules = [
      flake.nixosModules.default
      {
        services.helios-proxy = {
          enable = true;
          inherit package;
          nodes.pg1 = "10.0.0.11";
        };
        system.stateVersion = "26.05";
      }
    ];
  };

  # What is said of the module, as this nixpkgs has it. README's examples become files of the store first, which there is
  # none of with `--no-build`.
  inherit (import ../tests/nix/module { inherit lib pkgs nixosSystem; }) sentences;
  wrong = lib.filterAttrs (
    sentence: said: !lib.hasPrefix "README" sentence && said.got != said.want
  ) sentences;

  scenarios = lib.filterAttrs (name: _: lib.hasSuffix ".nix" name) (
    lib.optionalAttrs (builtins.pathExists ../tests/vm) (builtins.readDir ../tests/vm)
  );
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
  module =
    lib.throwIf (wrong != { }) "the module is not as it is said to be: ${builtins.toJSON wrong}"
      (pkgs.writeText "helios-proxy.service" host.config.systemd.units."helios-proxy.service".text);
}
// lib.mapAttrs' scenario scenarios
