# What the NixOS module means, checked by evaluation alone. `sentences`: { "<sentence>" = { got; want; }; }, equal or wrong.
# On the stand-in for nixpkgs (`nix eval --json --file tests/nix/module wrong`), or with a real one, where there is one.
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
rec {
  sentences = lib.foldl' (all: file: all // import file tools) { } files;
  wrong = lib.filterAttrs (_: said: said.got != said.want) sentences;
}
