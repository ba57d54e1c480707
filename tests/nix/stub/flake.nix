# A stand-in for nixpkgs, as small as this project's Nix files allow: their evaluation can be tested where neither
# nixpkgs nor a binary cache can be reached. Same names and meanings as there; what is not used is not here.
{
  description = "stand-in for nixpkgs";

  outputs =
    _:
    let
      lib = import ./lib;
      pkgsFor = system: import ./pkgs { inherit lib system; };
      systems = [
        "x86_64-linux"
        "aarch64-linux"
      ];
    in
    {
      lib = lib // {
        nixosSystem = import ./nixos { inherit lib pkgsFor; };
      };
      legacyPackages = lib.genAttrs systems pkgsFor;
    };
}
