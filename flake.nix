# What Nix gets of helios-proxy: the package, the NixOS module, an overlay, a development shell, and the checks.
{
  description = "A local PostgreSQL endpoint that always lands on the current Patroni leader";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-26.05";

  outputs =
    { self, nixpkgs }:
    let
      inherit (nixpkgs) lib;
      systems = [
        "x86_64-linux"
        "aarch64-linux"
      ];
      perSystem = f: lib.genAttrs systems (system: f nixpkgs.legacyPackages.${system});
      packageOf = pkgs: self.packages.${pkgs.stdenv.hostPlatform.system}.default;
      app = description: program: {
        type = "app";
        inherit program;
        meta = { inherit description; };
      };
    in
    {
      packages = perSystem (pkgs: rec {
        helios-proxy = pkgs.callPackage ./nixos/package.nix { };
        default = helios-proxy;
      });

      apps = perSystem (pkgs: {
        default = app "The proxy itself" (lib.getExe (packageOf pkgs));
        demo = app "A real cluster, a switchover and a killed leader, live" (
          lib.getExe (pkgs.callPackage ./nixos/demo.nix { helios-proxy = packageOf pkgs; })
        );
      });

      overlays.default = final: _: { helios-proxy = final.callPackage ./nixos/package.nix { }; };

      # As paths: a module that is imported twice counts once.
      nixosModules = rec {
        helios-proxy = ./nixos/module.nix;
        patroni-leader-proxy = ./nixos/patroni-leader-proxy.nix;
        default = helios-proxy;
      };

      devShells = perSystem (pkgs: {
        default = pkgs.callPackage ./nixos/shell.nix { };
      });

      checks = perSystem (
        pkgs:
        import ./nixos/checks.nix {
          inherit pkgs;
          flake = self;
          nixosSystem = lib.nixosSystem;
        }
      );

      formatter = perSystem (pkgs: pkgs.nixfmt-tree);
    };
}
