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
    def everyone_left(holder):
        cluster.followed()
        cluster.nobody_astray()
        assert len(holder.end()["ended"]) == 10, "a session stayed on the old leader"

    cluster.begin()
    writer = cluster.client("writer")
    connector = cluster.client("connector", 10)

    with subtest("a switchover"):
        holder = cluster.client("holder", 8, 2)
        cluster.switchover()
        everyone_left(holder)
        cluster.whole()

    with subtest("Patroni is stopped on the leader"):
        holder = cluster.client("holder", 8, 2)
        old = cluster.leader()
        old.succeed("systemctl stop patroni")
        cluster.down.add(old.name)
        cluster.moved(old)
        everyone_left(holder)
        old.succeed("systemctl start patroni")
        cluster.down.clear()
        cluster.whole()

    with subtest("the leader's machine dies"):
        holder = cluster.client("holder", 8, 2)
        old = cluster.leader()
        old.crash()
        cluster.down.add(old.name)
        cluster.moved(old)
        everyone_left(holder)

    written, connected = writer.end(), connector.end()
    assert written["acknowledged"] > 100 and written["missing"] == [], written
    assert connected["opened"] > 100 and connected["refused"] == [], connected
    assert 10 < connected["longest_wait"] < 45, "held, and for no longer than agreed"
    assert connected["unanswered"] == 0 and connected["read_only"] == 0, connected
  '';
}
