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
        cluster.moved(old)
        cluster.left_by_all(holder)
        cluster.mend(old)
        cluster.whole()

    with subtest("from everybody: it is left"):
        holder = cluster.client("holder", 8, 2)
        old = cluster.leader()
        old.block()
        cluster.moved(old)
        cluster.left_by_all(holder)
        old.unblock()
        cluster.nobody_astray()

    cluster.served(writer, connector)
  '';
}
