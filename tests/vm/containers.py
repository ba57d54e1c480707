proxy = Unit(app)
within = f"ip netns exec box {proxy.psql(host='172.20.0.1')}"

def build():
    app.succeed(
        "ip link add bridge0 type bridge",
        "ip addr add 172.20.0.1/24 dev bridge0",
        "ip link set bridge0 up",
        "ip netns add box",
        "ip link add outside type veth peer name inside netns box",
        "ip link set outside master bridge0 up",
        "ip -n box addr add 172.20.0.2/24 dev inside",
        "ip -n box link set inside up",
    )

def tear_down():
    app.succeed("ip netns del box", "ip link del bridge0")
    app.wait_until_fails("ip link show outside")

cluster.begin()
proxy.ready()
assert app.succeed("sysctl -n net.ipv4.ip_nonlocal_bind").strip() == "0"

with subtest("the bridge appears after the proxy"):
    pid = proxy.pid()
    build()
    assert app.wait_until_succeeds(within, timeout=10).strip() == "f"
    assert proxy.pid() == pid

with subtest("the proxy starts after the bridge"):
    app.succeed(f"systemctl restart {proxy.name}")
    proxy.ready()
    assert app.succeed(within).strip() == "f"

with subtest("the bridge is made anew below the proxy"):
    tear_down()
    build()
    assert app.wait_until_succeeds(within, timeout=10).strip() == "f"
    proxy.writes()
