# The stand-in's package set: builders that run with the machine's own programs, and packages that only point at a
# Debian system's programs.
{ lib, system }:
let
  build = import ./build.nix { inherit lib system; };
  debian = import ./debian.nix { inherit lib build; };
  platform = {
    inherit system;
    isLinux = true;
    canExecute = other: other.system == system;
    rust.cargoShortTarget = builtins.replaceStrings [ "-linux" ] [ "-unknown-linux-gnu" ] system;
  };
  pkgs =
    debian
    // build
    // {
      inherit lib pkgs system;
      callPackage = lib.callPackageWith pkgs;
      stdenv = {
        hostPlatform = platform;
        buildPlatform = platform;
      };
      formats = import ./formats.nix { inherit lib pkgs; };
      rustPlatform.buildRustPackage = import ./rust.nix { inherit lib pkgs; };
      testers = import ./testers.nix { inherit lib pkgs; };
      # The rest of an overlay's view.
      extend = overlay: pkgs // overlay pkgs pkgs;
    };
in
pkgs
