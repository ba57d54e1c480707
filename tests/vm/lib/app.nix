# The host of the application: the proxy as a user would set it up, with every default.
{
  helios,
  lib,
  members,
}:
{ nodes, ... }:
{
  imports = [ helios.nixosModules.default ];

  services.helios-proxy = {
    enable = true;
    nodes = lib.genAttrs members (name: nodes.${name}.networking.primaryIPAddress);
    readPort = 5433;
  };
}
