# The network to the nodes comes late, and with it the names: the proxy starts without, says little, and serves at once.
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
in
{
  name = "late-network";
  nodes = stage.nodes // {
    pg1 = { config, ... }: {
      imports = [ stage.nodes.pg1 ];
      networking.firewall.allowedUDPPorts = [ 53 ];
      systemd.services.names = {
        wantedBy = [ "multi-user.target" ];
        serviceConfig.ExecStart = "${pkgs.python3}/bin/python3 ${./lib/names.py} ${config.networking.primaryIPAddress}";
      };
    };
    app = { nodes, ... }: {
      imports = [ stage.nodes.app ];
      environment.systemPackages = [ pkgs.postgresql ];
      environment.etc."resolv.conf".text = "nameserver ${nodes.pg1.networking.primaryIPAddress}\n";
      services.helios-proxy = {
        nodes = lib.mkForce { pg1 = "pg1.far.example"; };
        extraAfterUnits = [ "tunnel.service" ];
      };
      # It is ready long before what it stands for is.
      systemd.services.tunnel = {
        wantedBy = [ "network-online.target" ];
        before = [ "network-online.target" ];
        serviceConfig = {
          Type = "oneshot";
          RemainAfterExit = true;
          ExecStart = "${pkgs.coreutils}/bin/sleep 10";
        };
      };
    };
  };
  testScript = stage.script (builtins.readFile ./lib/unit.py + builtins.readFile ./late_network.py);
}
