"""A machine's life: start, crash, shut down, reboot, pull the cable. What is said to it is in `commands`."""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

from .commands import Commands
from .disk import Disk
from .manifest import Node, System
from .network import Address, Cable
from .notices import Notices
from .patience import DEFAULT, ScriptFailed, retry
from .saying import say

# An echo of the boot in the log of a guest that does not come up.
_TAIL = 3000
_NSPAWN = [
    "systemd-nspawn",
    "--quiet",
    "--boot",
    "--register=no",
    "--keep-unit",
    "--kill-signal=SIGRTMIN+3",
    "--notify-ready=yes",
    "--console=pipe",
    "--link-journal=no",
    "--resolv-conf=off",
    "--timezone=off",
    # As much as NixOS's systemd has, whatever this machine allows.
    "--rlimit=NOFILE=1024:524288",
    # For BPF, which systemd's IPAddressDeny= and RestrictFileSystems= are made of.
    "--capability=CAP_NET_ADMIN,CAP_SYS_ADMIN,CAP_BPF,CAP_PERFMON",
]


class Machine(Commands):
    """One node, as the script knows it."""

    def __init__(self, address: Address, node: Node, disk: Disk, bridge: str, store: Path, folder: Path) -> None:
        self.name = address.name
        self.address = address
        self.node = node
        self.disk = disk
        # The configuration that was switched to last; a reboot keeps it.
        self.system: System = node.base
        self._bridge = bridge
        self._store = store
        self._folder = folder
        self._cable = Cable(self.name)
        self._nspawn: subprocess.Popen[bytes] | None = None
        # PID 1 of the guest as the driver counts, once it is known.
        self._leader: int | None = None

    def __repr__(self) -> str:
        return f"<machine {self.name}>"

    def is_up(self) -> bool:
        return self._nspawn is not None

    def start(self, allow_reboot: bool = False) -> None:
        """Begins to boot and does not wait: the first command does. A reboot is always allowed here."""
        del allow_reboot
        if self._nspawn:
            return
        self._notices = Notices(self._folder / "notify")
        command = [*_NSPAWN, f"--directory={self.disk.root}", f"--machine={self.name}"]
        command += [f"--network-bridge={self._bridge}", f"--bind-ro={self._store}"]
        # Each guest needs a group of its own: nspawn makes two below the one it starts in.
        group = Path("/sys/fs/cgroup") / self.name
        group.mkdir(exist_ok=True)

        def join() -> None:
            (group / "cgroup.procs").write_text("0")

        hearing = {"NOTIFY_SOCKET": str(self._notices.path), "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}
        with self._console.open("ab") as console:
            self._nspawn = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                env={**os.environ, **hearing},
                preexec_fn=join,
                start_new_session=True,
            )
        self._began = time.monotonic()

    def crash(self) -> None:
        """Power loss: nobody hears of it. What the guest's processes had written is on its disk, synced or not."""
        if self._nspawn:
            say(f"{self.name}: forced crash")
            leader = self._heard_leader()
            self._cable.cut()
            os.kill(leader, signal.SIGKILL)
            self.wait_for_shutdown()

    def shutdown(self) -> None:
        if self._nspawn:
            # `systemctl poweroff` would ask logind, which no guest has.
            self.execute("systemctl start poweroff.target --job-mode=replace-irreversibly --no-block")
            self.wait_for_shutdown()

    def reboot(self) -> None:
        self.shutdown()
        self.start()

    def wait_for_shutdown(self) -> None:
        if self._nspawn:
            try:
                self._nspawn.wait(DEFAULT)
            except subprocess.TimeoutExpired as error:
                raise ScriptFailed(f"{self.name} is not down after {DEFAULT} s") from error
            self._forget()

    def block(self) -> None:
        """Pulls the cable."""
        self.connect()
        say(f"{self.name}: cable out")
        self._cable.plug(False)

    def unblock(self) -> None:
        say(f"{self.name}: cable in")
        self._cable.plug(True)

    def connect(self) -> int:
        """Waits until the guest takes commands, starting it if need be: PID 1 as the host counts."""
        self.start()
        if self._leader is None:
            leader = self._heard_leader()
            retry(lambda _: self._takes_commands(leader), DEFAULT)
            self._leader = leader
            say(f"{self.name}: up after {time.monotonic() - self._began:.1f} s")
        return self._leader

    def release(self) -> None:
        """At the end of the run, whatever state the machine is in."""
        if self._nspawn:
            if self._notices.leader:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._notices.leader, signal.SIGKILL)
            end = time.monotonic() + 5
            while self._nspawn.poll() is None and time.monotonic() < end:
                # What a command that was cut off has left in the guest is a child of ours now, and its PID 1 cannot end
                # before it is buried.
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(-1, os.WNOHANG)
                time.sleep(0.02)
            self._nspawn.kill()
            self._nspawn.wait()
            self._forget()

    @property
    def _console(self) -> Path:
        return self._folder / "console"

    def console_text(self) -> str:
        return self._console.read_text(errors="replace")

    def _heard_leader(self) -> int:
        end = time.monotonic() + DEFAULT
        while time.monotonic() < end and self._nspawn and self._nspawn.poll() is None:
            if self._notices.leader is not None:
                return self._notices.leader
            time.sleep(0.05)
        raise ScriptFailed(f"{self.name} did not boot: {self.console_text()[-_TAIL:]}")

    def _takes_commands(self, leader: int) -> bool:
        if self._nspawn and self._nspawn.poll() is not None:
            raise ScriptFailed(f"{self.name} died while booting: {self.console_text()[-_TAIL:]}")
        return self.within(leader, "systemctl is-active --quiet basic.target 2> /dev/null", 10)[0] == 0

    def _forget(self) -> None:
        self._nspawn = None
        self._leader = None
        self._notices.close()
