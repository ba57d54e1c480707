cluster.begin()
proxy = Unit(app)
proxy.ready()
# What systemd calls the sockets that it keeps: their addresses.
STORED = [f"127.0.0.1%3A{port}" for port in (5432, 5433, 9090)]


def stored():
    listed = app.succeed(f"systemd-analyze fdstore --json=short {proxy.name}")
    return sorted(one["fdname"] for one in json.loads(listed))


def processes():
    group = proxy.shows("ControlGroup")
    return app.succeed(f"cat /sys/fs/cgroup{group}/cgroup.procs").split()


def deaf():
    """No Patroni is heard any more, until it is not known who leads: sessions go on, and no other process takes them."""
    rules = "table inet deaf { chain out { type filter hook output priority 0; tcp dport 8008 drop; }; }"
    app.succeed(f"{NFT} '{rules}'")
    app.wait_until_fails(proxy.asking("/health/ready"), timeout=30)


def hearing():
    app.succeed(f"{NFT} delete table inet deaf")


def nobody_refused(connector):
    said = connector.end()
    assert said["opened"] > 50 and said["unanswered"] == 0, said
    turned_away = [why for why in said["refused"] if "ConnectionRefused" in why]
    assert turned_away == [], said
    return said


def nobody_hurt(connector):
    said = nobody_refused(connector)
    assert said["refused"] == [] and said["lost"] == [], said
    return said


with subtest("systemd keeps each listening socket"):
    assert proxy.shows("FileDescriptorStorePreserve") == "yes"
    assert stored() == STORED, stored()

with subtest("twenty restarts under constant connecting refuse nobody and cut nobody"):
    connector = cluster.client("connector", 100)
    for _ in range(20):
        pid = proxy.pid()
        app.succeed(f"systemctl restart {proxy.name}")
        assert proxy.pid() != pid
        time.sleep(0.2)
    assert nobody_hurt(connector)["longest_wait"] < 20
    assert stored() == STORED, stored()

with subtest("a statement may finish, and newcomers are served meanwhile"):
    connector = cluster.client("connector", 50)
    app.succeed(
        "systemd-run --quiet --unit=busy --property=Type=oneshot --remain-after-exit --no-block"
        " psql --no-psqlrc 'host=127.0.0.1 user=postgres' -c 'SELECT pg_sleep(12)'"
    )
    time.sleep(1)
    app.succeed(f"systemctl restart {proxy.name}")
    app.wait_until_succeeds("systemctl is-active busy", timeout=40)
    assert nobody_hurt(connector)["longest_wait"] < 8

with subtest("between a stop and a start clients wait"):
    connector = cluster.client("connector", 50)
    app.succeed(f"systemctl stop {proxy.name}")
    assert stored() == STORED, stored()
    time.sleep(5)
    app.succeed(f"systemctl start {proxy.name}")
    assert nobody_hurt(connector)["longest_wait"] > 2.5

with subtest("after a crash clients wait"):
    connector = cluster.client("connector", 50)
    pid = proxy.pid()
    proxy.kill("KILL")
    proxy.replaced(pid)
    time.sleep(4)
    nobody_refused(connector)
    assert stored() == STORED, stored()

with subtest("another program takes over, and is what systemd restarts and stops from then on"):
    connector = cluster.client("connector", 100)
    holder = cluster.client("holder", 8, 2)
    pid = proxy.pid()
    switch(app, "newer")
    assert proxy.pid() != pid, "nobody took over"
    app.wait_until_fails(f"kill -0 {pid}", timeout=20)
    assert processes() == [str(proxy.pid())], processes()
    assert stored() == STORED, stored()
    pid = proxy.pid()
    # Longer than systemd's patience with one that does not feed its watchdog.
    time.sleep(5)
    assert proxy.pid() == pid, "the newer one was not taken for the service"
    assert holder.end()["ended"] == []
    app.succeed(f"systemctl restart {proxy.name}")
    assert proxy.pid() != pid
    time.sleep(1)
    nobody_hurt(connector)
    assert stored() == STORED, stored()

with subtest("who cannot be taken over stays with the older program, and leaves it later"):
    holder = cluster.client("holder", 8, 2)
    pid = proxy.pid()
    deaf()
    switch(app, None)
    assert sorted(processes()) == sorted([str(pid), str(proxy.pid())]), processes()
    time.sleep(5)
    hearing()
    app.wait_until_fails(f"kill -0 {pid}", timeout=20)
    assert holder.end()["ended"] == []

with subtest("a stop ends both programs"):
    holder = cluster.client("holder", 8, 0)
    deaf()
    switch(app, "newer")
    assert len(processes()) == 2, processes()
    begun = time.monotonic()
    app.succeed(f"systemctl stop {proxy.name}")
    assert time.monotonic() - begun < 10, "nobody was busy"
    hearing()
    said = holder.end()["ended"]
    assert [one["why"].split()[:2] for one in said] == [["FATAL", "57P01"]] * 8, said
    app.succeed(f"systemctl start {proxy.name}")
    proxy.ready()

with subtest("what systemd keeps is let go by a clean"):
    app.succeed(f"systemctl stop {proxy.name}", f"systemctl clean --what=fdstore {proxy.name}")
    app.wait_for_closed_port(5432)

with subtest("a socket unit keeps a unix socket too, and starts the proxy with its first client"):
    app.succeed(
        "printf '[Socket]\\nListenStream=%s\\nListenStream=%s\\n'"
        " 127.0.0.1:5432 /run/helios-db/.s.PGSQL.5432 > /run/systemd/system/helios-proxy.socket",
        "systemctl daemon-reload",
        "systemctl start helios-proxy.socket",
    )
    switch(app, "local")
    app.wait_for_unit(proxy.name)
    assert stored() == STORED[1:], stored()
    visit = "psql --no-psqlrc 'host=/run/helios-db user=postgres connect_timeout=40' -c 'SELECT 1'"
    app.succeed(
        "systemd-run --quiet --unit=visits --setenv=PATH --property=Type=oneshot --remain-after-exit --no-block"
        f' /bin/sh -e -c "for n in $(seq 60 | xargs); do {visit}; done"'
    )
    connector = cluster.client("connector", 50)
    for _ in range(3):
        app.succeed(f"systemctl restart {proxy.name}")
        time.sleep(0.5)
    app.wait_until_succeeds("systemctl is-active visits", timeout=60)
    nobody_hurt(connector)

    app.succeed(f"systemctl stop {proxy.name}")
    assert proxy.shows("ActiveState") == "inactive"
    app.succeed(visit)
    app.wait_for_unit(proxy.name)
