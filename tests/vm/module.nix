# The module's unit under a real systemd: defaults, reload, watchdog, hardening, crashes, an absent address, two clusters.
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
  clusters = { nodes, ... }: {
    services.helios-proxy = {
      enable = lib.mkForce false;
      clusters =
        lib.mapAttrs
          (_: port: {
            inherit port;
            nodes.pg1 = nodes.pg1.networking.primaryIPAddress;
            admin.address = "127.0.0.1:${toString (port + 1000)}";
          })
          {
            orders = 6001;
            billing = 6002;
          };
    };
  };
in
{
  name = "module";
  nodes = stage.nodes // {
    app = { nodes, ... }: {
      imports = [ stage.nodes.app ];
      environment.systemPackages = [ pkgs.postgresql ];
      # Nobody here has the second one yet.
      services.helios-proxy = {
        bindAddresses = [
          "127.0.0.1"
          "10.9.9.9"
        ];
        settings.listeners = lib.mkDefault [ { address = "/run/helios-proxy/.s.PGSQL.5432"; } ];
      };
      systemd.services.first-client = {
        wantedBy = [ "multi-user.target" ];
        after = [ "helios-proxy.service" ];
        serviceConfig = {
          Type = "oneshot";
          RemainAfterExit = true;
          ExecStart = "${lib.getExe' pkgs.postgresql "psql"} -h 127.0.0.1 -U postgres -c 'SELECT 1'";
        };
      };
      specialisation = {
        changed.configuration.services.helios-proxy = {
          readPort = lib.mkForce 5434;
          settings.write_timeout_secs = 50;
          # Nobody is there.
          nodes.pg2 = "192.168.1.99";
        };
        clusters.configuration = clusters { inherit nodes; };
      };
    };
  };
  testScript = stage.script (builtins.readFile ./lib/unit.py + builtins.readFile ./module.py);
}
