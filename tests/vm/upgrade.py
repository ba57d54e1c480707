cluster.begin()
proxy = Unit(app)
first, born = proxy.program(), proxy.shows("InvocationID")
# The steady one last: on a busy machine who comes after it waits in a long line.
holders = [cluster.client("holder", 80, 20), cluster.client("holder", 5, 5, port=5433)]
connector = cluster.client("connector", 200)


def switched(name):
    """To another program, and to no more than one."""
    before = proxy.program()
    switch(app, name)
    proxy.alone()
    assert proxy.program() == proxy.configured() != before


with subtest("another program, other settings, a member more, a listener less"):
    switched("newer")
    assert proxy.config()["write_timeout_secs"] == 40
    assert [node["name"] for node in proxy.config()["nodes"]] == ["pg1", "pg2"]
    app.wait_for_closed_port(5433, timeout=10)

with subtest("a program that does not start: the old one goes on"):
    served = proxy.pid(), proxy.program()
    switch(app, "broken")
    proxy.alone()
    assert (proxy.pid(), proxy.program()) == served

with subtest("back to where it was"):
    switched(None)
    assert proxy.program() == first
    app.wait_for_open_port(5433)

with subtest("faster than the watchdog looks"):
    for _ in range(3):
        switched("newer")
        switched(None)

assert (proxy.shows("InvocationID"), proxy.shows("NRestarts")) == (born, "0")
for holder in holders:
    assert holder.end()["ended"] == []
connected = connector.end()
assert connected["opened"] > 1000 and connected["unanswered"] == 0, connected
assert connected["refused"] == [] and connected["lost"] == [], connected
