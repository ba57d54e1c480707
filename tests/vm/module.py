# First: its client at boot waits for no more than 45 s.
for machine in etcd, pg1:
    machine.start()
pg1.wait_for_unit("patroni")
cluster.begin()
proxy = Unit(app)
proxy.ready()

with subtest("the defaults"):
    proxy.writes()
    app.succeed(proxy.psql(port=5433))
    proxy.writes(host="/run/helios-proxy")
    assert proxy.shows("Type") == "notify-reload"
    assert proxy.shows("StatusText") != "", "the leader in words"
    assert proxy.config()["write_timeout_secs"] == 45

with subtest("who is ordered after it connects at once, and waits for the leader"):
    app.wait_for_unit("first-client.service")

with subtest("systemd takes the unit without a word and calls it well shut in"):
    code, complaints = app.execute(f"systemd-analyze verify --man=no {proxy.name} 2>&1")
    assert code == 0 and proxy.name not in complaints, complaints
    app.succeed(f"systemd-analyze security --threshold=15 --no-pager {proxy.name}")

with subtest("an address that nobody has yet is listened to"):
    assert app.succeed("sysctl -n net.ipv4.ip_nonlocal_bind").strip() == "0"
    warned = [line["ADDRESS"] for line in proxy.said("no interface carries")]
    assert sorted(warned) == ["10.9.9.9:5432", "10.9.9.9:5433"], warned
    app.succeed("ip addr add 10.9.9.9/32 dev lo")
    proxy.writes(host="10.9.9.9")

with subtest("another configuration: reloaded, and nobody is dropped"):
    pid, since = proxy.pid(), proxy.shows("ActiveEnterTimestampMonotonic")
    holders = [cluster.client("holder", 60, 40), cluster.client("holder", 8, 2, port=5433)]
    switch(app, "changed")
    assert proxy.config()["write_timeout_secs"] == 50
    assert [node["name"] for node in proxy.config()["nodes"]] == ["pg1", "pg2"]
    app.succeed(proxy.psql(port=5434))
    app.wait_for_closed_port(5433)
    assert (proxy.pid(), proxy.shows("ActiveEnterTimestampMonotonic")) == (pid, since)
    switch(app, None)
    app.succeed(proxy.psql(port=5433))
    assert proxy.pid() == pid
    for said in [holder.end() for holder in holders]:
        assert said["ended"] == [] and said["answers"] > 0, said

with subtest("a unix socket is there again after a restart"):
    app.succeed(f"systemctl restart {proxy.name}")
    proxy.writes(host="/run/helios-proxy")

with subtest("a hung daemon is killed and started again"):
    pid = proxy.pid()
    proxy.kill("STOP")
    proxy.replaced(pid)
    app.succeed(f"journalctl --boot --unit={proxy.name} | grep -i watchdog")
    proxy.writes()

with subtest("ten crashes in a row: it is back after each"):
    connector = cluster.client("connector", 5)
    for _ in range(10):
        pid = proxy.pid()
        proxy.kill("KILL")
        proxy.replaced(pid)
    proxy.writes()
    said = connector.end()
    turned_away = [why for why in said["refused"] if "ConnectionRefused" in why]
    assert said["opened"] > 20 and turned_away == [], "the sockets outlive a crash"

with subtest("two clusters, a unit each"):
    switch(app, "clusters")
    for name, port in {"orders": 6001, "billing": 6002}.items():
        one = Unit(app, f"helios-proxy-{name}", port, port + 1000)
        app.wait_for_unit(one.name)
        one.writes()
    app.fail(f"systemctl is-active {proxy.name}")
    app.wait_for_closed_port(5432)
