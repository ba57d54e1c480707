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
  testScript = stage.script (
    builtins.readFile ./lib/unit.py
    + ''
      proxy = Unit(app)
      cluster.begin()
      app.wait_for_open_port(5432)

      with subtest("writes go to the leader, reads to the replica"):
          at = 'psql --no-psqlrc -v ON_ERROR_STOP=1 -Atq "host=127.0.0.1 user=postgres dbname=postgres port=%d" -c "%s"'
          app.succeed(at % (5432, "CREATE TABLE moved (n int); INSERT INTO moved VALUES (1)"))
          app.wait_until_succeeds(at % (5433, "SELECT 1 / count(*) FROM moved"), timeout=10)
          app.wait_until_succeeds(f"test $({proxy.psql(port=5433)}) = t", timeout=15)

      with subtest("and after a switchover still"):
          cluster.switchover()
          cluster.followed()
          app.succeed(at % (5432, "INSERT INTO moved VALUES (2)"))
          proxy.writes()
    ''
  );
}
