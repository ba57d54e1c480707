# The leader is cut off from the proxy alone, from etcd alone, and from everybody.
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
  name = "partition";
  inherit (stage) nodes;
  testScript = stage.script ''
    def moves_away_from(old, holder):
        cluster.moved(old)
        cluster.followed()
        cluster.nobody_astray()
        assert len(holder.end()["ended"]) == 10, "a session stayed on the old leader"

    cluster.begin()
    writer = cluster.client("writer")
    connector = cluster.client("connector", 10)

    with subtest("from the proxy: it is a wait, and nobody else leads"):
        holder = cluster.client("holder", 8, 2)
        old, epoch = cluster.leader(), cluster.topology()["authoritative"]["epoch"]
        cluster.cut(old, app)
        app.sleep(4)
        cluster.mend(old)
        cluster.followed()
        assert cluster.leader() is old
        assert cluster.topology()["authoritative"]["epoch"] == epoch
        assert holder.end()["ended"] == [], "silence has ended a session"

    with subtest("from etcd: it gives way, and is left"):
        holder = cluster.client("holder", 8, 2)
        cluster.cut(old, etcd)
        moves_away_from(old, holder)
        cluster.mend(old)
        cluster.whole()

    with subtest("from everybody: it is left"):
        holder = cluster.client("holder", 8, 2)
        old = cluster.leader()
        old.block()
        moves_away_from(old, holder)
        old.unblock()
        cluster.nobody_astray()

    written, connected = writer.end(), connector.end()
    assert written["acknowledged"] > 100 and written["missing"] == [], written
    assert connected["opened"] > 100 and connected["refused"] == [], connected
    assert 10 < connected["longest_wait"] < 45, "held, and for no longer than agreed"
    assert connected["unanswered"] == 0 and connected["read_only"] == 0, connected
  '';
}
