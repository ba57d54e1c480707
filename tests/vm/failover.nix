# The leader moves by plan, is stopped, and dies: nothing acknowledged is lost, and no new connection fails.
{
  helios,
  lib,
  pkgs,
  ...
}:
let
  stage = import ./lib { inherit helios lib pkgs; };
in
{
  name = "failover";
  inherit (stage) nodes;
  testScript = stage.script ''
    cluster.begin()
    writer = cluster.client("writer")
    connector = cluster.client("connector", 10)

    with subtest("a switchover"):
        holder = cluster.client("holder", 8, 2)
        cluster.switchover()
        cluster.left_by_all(holder)
        cluster.whole()

    with subtest("Patroni is stopped on the leader"):
        holder = cluster.client("holder", 8, 2)
        old = cluster.leader()
        old.succeed("systemctl stop patroni")
        cluster.down.add(old.name)
        cluster.moved(old)
        cluster.left_by_all(holder)
        old.succeed("systemctl start patroni")
        cluster.down.clear()
        cluster.whole()

    with subtest("the leader's machine dies"):
        holder = cluster.client("holder", 8, 2)
        old = cluster.leader()
        old.crash()
        cluster.down.add(old.name)
        cluster.moved(old)
        cluster.left_by_all(holder)

    cluster.served(writer, connector)
  '';
}
