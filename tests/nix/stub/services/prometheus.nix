# The options of NixOS's Prometheus by which a module sees that it listens here.
{ lib, ... }:
let
  inherit (lib) mkOption types;
in
{
  options.services.prometheus = {
    enable = lib.mkEnableOption "Prometheus";
    listenAddress = mkOption {
      type = types.str;
      default = "0.0.0.0";
    };
    port = mkOption {
      type = types.port;
      default = 9090;
    };
  };
}
