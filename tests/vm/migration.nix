# A host that used the module patroni-leader-proxy changes one line of import: what it had set means the same.
{
  helios,
  lib,
  pkgs,
  ...
}:
let
  stage = import ./lib {
    inherit helios lib pkgs;
    size = 2;
  };
in
{
  name = "migration";
  nodes = stage.nodes // {
    app = { nodes, ... }: {
      imports = [ helios.nixosModules.patroni-leader-proxy ];
      environment.systemPackages = [ pkgs.postgresql ];

      services.patroni-leader-proxy = {
        enable = true;
        nodes = {
          pg1 = nodes.pg1.networking.primaryIPAddress;
          pg2 = nodes.pg2.networking.primaryIPAddress;
        };
        readPort = 5433; # optional round-robin replica pool
      };
    };
  };
  testScript = stage.script (builtins.readFile ./lib/unit.py + builtins.readFile ./migration.py);
}
