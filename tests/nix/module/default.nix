# What the NixOS module means, checked by evaluation alone: { "<sentence>" = { got; want; }; }. Equal or wrong.
# By itself on the stand-in for nixpkgs (`nix eval --json -f tests/nix/module`); with a real nixpkgs where there is one.
{
  system ? "x86_64-linux",
  lib ? import ../stub/lib,
  pkgs ? import ../stub/pkgs { inherit lib system; },
  nixosSystem ? import ../stub/nixos {
    inherit lib;
    pkgsFor = _: pkgs;
  },
}:
let
  tools = import ./tools.nix { inherit lib pkgs nixosSystem; };
  files = [
    ./alias.nix
    ./clusters.nix
    ./file.nix
    ./mistakes.nix
    ./nodes.nix
    ./readme.nix
    ./switch.nix
    ./time.nix
    ./twin.nix
    ./unit.nix
  ];
in
lib.foldl' (all: file: all // import file tools) { } files
