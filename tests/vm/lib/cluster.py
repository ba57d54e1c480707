# The words of the cluster scenarios: the cluster, its clients, what may be done to it and what must be true of it.
import json
import time


def until(what, check, seconds=120):
    """Asks again and again until the answer is not false, and gives that answer."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answer = check()
        if answer:
            return answer
        time.sleep(0.3)
    raise Exception(f"{what}: not within {seconds} s")


class Client:
    """A client program beside the proxy; what it has seen is known at its end."""

    def __init__(self, machine, program, words, port):
        self.machine = machine
        self.unit = f"{program}-{time.monotonic_ns()}"
        self.file = f"/run/{self.unit}.json"
        line = " ".join(str(word) for word in [program, "127.0.0.1", port, self.file, *words])
        machine.succeed(f"systemd-run --quiet --unit={self.unit} {CLIENTS} {line}")
        until(f"{program} is at work", lambda: self.said() is not None)

    def said(self):
        status, text = self.machine.execute(f"cat {self.file} 2>&1")
        return json.loads(text) if status == 0 else None

    def end(self):
        self.machine.succeed(f"systemctl stop {self.unit}")
        said = self.said()
        self.machine.log(f"{self.unit}: {json.dumps(said)[:2000]}")
        assert "ready" not in said, f"{self.unit} said nothing at its end"
        assert said.get("unanswered", 0) == 0, f"{self.unit} waits in vain: {said}"
        return said


class Cluster:
    """The Patroni cluster and the proxy in front of it."""

    def __init__(self, app, etcd, members):
        self.app = app
        self.etcd = etcd
        self.members = {member.name: member for member in members}
        # The names of those that run no PostgreSQL at present.
        self.down = set()
        # Who answered last, and what.
        self.asked = self.seen = None

    def begin(self):
        start_all()
        self.app.wait_for_unit("helios-proxy.service")
        self.whole()
        self.followed()

    def client(self, program, *words, port=5432):
        return Client(self.app, program, words, port)

    def view(self):
        """What the members say of the cluster: the first of them that the etcd's machine reaches."""
        for name in sorted(self.members, key=lambda name: name != self.asked):
            status, text = self.etcd.execute(f"curl -s -m 2 http://{name}:8008/cluster")
            self.asked = name
            if status == 0 and text.startswith("{"):
                said = json.loads(text).get("members", [])
                words = [f"{m['name']} {m['role']} {m['state']}" for m in said]
                if words != self.seen:
                    self.etcd.log(f"{name} says: {', '.join(words)}")
                    self.seen = words
                return said
        return []

    def leader(self):
        """The machine that leads, once one does."""

        def leads():
            for one in self.view():
                if one["role"] == "leader" and one["state"] == "running":
                    return one["name"]

        return self.members[until("a leader", leads)]

    def moved(self, old):
        """The machine that leads after another one did."""
        return until(
            "another leader", lambda: self.leader() is not old and self.leader()
        )

    def whole(self):
        """Waits until every member is back, and one of them has all that is acknowledged."""

        def together():
            said = [(one["role"], one["state"]) for one in self.view()]
            streaming = [role for role, state in said if state == "streaming"]
            return (
                len(said) == len(self.members)
                and ("leader", "running") in said
                and len(streaming) == len(said) - 1
                and (not streaming or "sync_standby" in streaming)
            )

        until("a whole cluster", together)

    def topology(self):
        return json.loads(
            self.app.succeed("curl -s http://127.0.0.1:9090/topology", timeout=5)
        )

    def followed(self):
        """Waits until the proxy leads to the leader."""
        here = ADDRESSES[self.leader().name] + ":5432"
        until(
            "the proxy follows", lambda: self.topology()["currentPrimary"] == here, 60
        )

    def nobody_astray(self):
        """No client sits on a member that does not lead. Each is asked on its own machine: it may be cut off."""
        for name in sorted(self.members.keys() - self.down):

            def told():
                return self.members[name].execute(
                    f"{CLIENTS} census {ADDRESSES[name]} 5432 2>&1"
                )

            _, text = until(f"{name} answers", lambda: told()[0] == 0 and told())
            said = json.loads(text)
            assert not (said["replica"] and said["clients"]), f"{name}: {said}"

    def left_by_all(self, holder):
        """Every session that was held has left the member that led, and none is on another that does not lead."""
        self.followed()
        self.nobody_astray()
        said = holder.end()
        assert len(said["ended"]) == said["held"] > 0, "a session stayed on the old leader"

    def served(self, writer, connector):
        """Nothing that was acknowledged is missing, and every new connection was let in: held, and no longer than
        agreed, where nobody led."""
        written, connected = writer.end(), connector.end()
        assert written["acknowledged"] > 100 and written["missing"] == [], written
        assert connected["opened"] > 100 and connected["refused"] == [], connected
        assert 10 < connected["longest_wait"] < 45, connected
        assert connected["unanswered"] == 0 and connected["read_only"] == 0, connected

    def switchover(self):
        old = self.leader()
        order = json.dumps({"leader": old.name})
        # Patroni refuses it while the candidate is too busy to answer.
        self.etcd.wait_until_succeeds(
            f"curl -s -f -m 30 -d '{order}' http://{old.name}:8008/switchover",
            timeout=60,
        )
        return self.moved(old)

    def cut(self, member, other):
        """No packet passes between the two any more."""
        address = ADDRESSES[other.name]
        rules = f"""table inet cut {{
            chain in {{ type filter hook input priority -10; ip saddr {address} drop; }}
            chain out {{ type filter hook output priority -10; ip daddr {address} drop; }}
        }}"""
        member.succeed(f"{NFT} -f - <<'END'\n{rules}\nEND")

    def mend(self, member):
        member.succeed(f"{NFT} delete table inet cut")


