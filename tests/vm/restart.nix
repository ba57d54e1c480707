# One process after the other under a real systemd: restart, stop and start, crash, hand-over, a socket unit. Nobody is refused.
{
  helios,
  lib,
  pkgs,
  ...
}:
let
  stage = import ./lib {
    inherit helios lib pkgs;
    size = 1;
  };
  proxy = helios.packages.${pkgs.stdenv.hostPlatform.system}.default;
in
{
  name = "restart";
  nodes = stage.nodes // {
    app = {
      imports = [ stage.nodes.app ];
      environment.systemPackages = [ pkgs.postgresql ];
      # So that a watchdog that is not fed shows soon, and a leader that is not heard of.
      services.helios-proxy.settings.topology.lease_timeout_secs = 3;
      systemd.services.helios-proxy.serviceConfig.WatchdogSec = lib.mkForce "3s";
      specialisation = {
        newer.configuration.services.helios-proxy.package = proxy.overrideAttrs (_: {
          GENERATION = "2";
        });
        # Its directory is made by systemd, for the socket unit of the script.
        local.configuration.services.helios-proxy.settings.listeners = lib.mkDefault [
          { address = "/run/helios-db/.s.PGSQL.5432"; }
        ];
      };
    };
  };
  testScript = stage.script (builtins.readFile ./lib/unit.py + builtins.readFile ./restart.py);
}
