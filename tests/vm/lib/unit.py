class Unit:
    """A helios-proxy unit on a machine, as its operator sees it."""

    def __init__(self, machine, name="helios-proxy", port=5432, admin=9090):
        self.machine = machine
        self.name = name + ".service"
        self.port = port
        self.admin = admin

    def shows(self, property):
        return self.machine.get_unit_property(self.name, property)

    def pid(self):
        return int(self.shows("MainPID"))

    def ready(self):
        """Waits until it knows a leader."""
        self.machine.wait_until_succeeds(self.asking("/health/ready"))

    def asking(self, path):
        return f"curl --silent --fail http://127.0.0.1:{self.admin}{path}"

    def config(self):
        return json.loads(self.machine.succeed(self.asking("/config")))

    def psql(self, port=None, host="127.0.0.1"):
        """A command that says whether the server it lands on is read-only: t or f."""
        at = f"host={host} port={port or self.port} user=postgres dbname=postgres connect_timeout=40"
        return f'psql --no-psqlrc -At "{at}" -c "SELECT pg_is_in_recovery()"'

    def writes(self, **where):
        said = self.machine.succeed(self.psql(**where)).strip()
        assert said == "f", f"port {where or self.port} leads to a server that cannot be written to: {said}"

    def kill(self, signal):
        self.machine.succeed(f"kill -{signal} {self.pid()}")

    def replaced(self, pid):
        """Waits until another process serves than `pid`."""

        def serves(_):
            return self.pid() not in (0, pid) and self.shows("ActiveState") == "active"

        retry(serves, 60)

    def said(self, words=""):
        """The lines it has logged since the machine was started, each with all its fields."""
        asked = f"journalctl --boot --output=json --unit={self.name} _COMM=helios-proxy"
        lines = [json.loads(line) for line in self.machine.succeed(asked).splitlines()]
        return [line for line in lines if words in line["MESSAGE"]]

    def program(self):
        """What its main process runs."""
        return self.machine.succeed(f"readlink /proc/{self.pid()}/exe").strip()

    def configured(self):
        """What the configuration wants it to run."""
        return self.machine.succeed("readlink -f /etc/helios-proxy/helios-proxy").strip()

    def alone(self):
        """Waits until the main process is the only one."""

        def left():
            status, pids = self.machine.execute("pgrep --exact helios-proxy")
            return status == 0 and pids.split() == [str(self.pid())]

        until("one process", left, 60)
