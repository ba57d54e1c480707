proxy = Unit(app)

app.start()
app.block()
for other in (etcd, pg1):
    other.start()
pg1.wait_until_succeeds("curl --silent --fail http://pg1:8008/primary")
pg1.wait_for_unit("names.service")

with subtest("it is up without a network and without names"):
    app.wait_for_unit(proxy.name, timeout=40)
    app.fail(proxy.asking("/health/ready"))

with subtest("it stays up, and says little"):
    client = "systemd-run --quiet --unit=client --setenv=PATH --property=Type=oneshot --property=RemainAfterExit=yes --no-block"
    app.succeed(f"{client} bash -c '{proxy.psql()}'")
    time.sleep(15)
    app.require_unit_state(proxy.name)
    assert proxy.shows("NRestarts") == "0"
    app.require_unit_state("client.service", "activating")

with subtest("it serves once the network is there, and who has waited first"):
    app.unblock()
    began = time.monotonic()
    proxy.ready()
    app.wait_for_unit("client.service")
    app.log(f"served {time.monotonic() - began:.1f} s after the network came")
    assert time.monotonic() - began < 15
    proxy.writes()
    assert len(proxy.said()) < 20, [line["MESSAGE"] for line in proxy.said()]
