# `nixosSystem`: the options of NixOS that this project's module and tests touch, and what becomes of them.
{ lib, pkgsFor }:
{
  modules,
  specialArgs ? { },
  system ? "x86_64-linux",
  ...
}:
lib.evalModules {
  class = "nixos";
  specialArgs = {
    modulesPath = toString ./.;
  }
  // specialArgs;
  modules = [
    ./host.nix
    ./systemd.nix
    ./toplevel.nix
    ./specialisation.nix
    (
      { config, ... }:
      {
        nixpkgs.hostPlatform = lib.mkDefault system;
        _module.args = {
          pkgs = lib.mkDefault (
            lib.foldl' (pkgs: pkgs.extend) (pkgsFor config.nixpkgs.hostPlatform) config.nixpkgs.overlays
          );
        };
      }
    )
  ]
  ++ lib.mapAttrsToList (name: _: ../services + "/${name}") (builtins.readDir ../services)
  ++ modules;
}
