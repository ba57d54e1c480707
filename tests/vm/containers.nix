# Containers on a bridge reach the cluster at the bridge's address, whichever of proxy and bridge came first.
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
  name = "containers";
  nodes = stage.nodes // {
    app = {
      imports = [ stage.nodes.app ];
      environment.systemPackages = [ pkgs.postgresql ];
      services.helios-proxy.bindAddresses = [
        "127.0.0.1"
        "172.20.0.1"
      ];
      networking.firewall.trustedInterfaces = [ "bridge0" ];
    };
  };
  testScript = stage.script (builtins.readFile ./lib/unit.py + builtins.readFile ./containers.py);
}
