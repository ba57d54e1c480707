"""What a script can say to a machine: the words of the NixOS test driver, with the meaning it documents."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

from .disk import Disk
from .manifest import System
from .patience import DEFAULT, ScriptFailed, retry
from .saying import nested, say

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Where Debian hides the server's programs.
_POSTGRESQL = "/usr/lib/postgresql/17/bin"


class Commands:
    """The half of a machine that does not care how it was started."""

    name: str
    disk: Disk
    system: System

    def connect(self) -> int:
        raise NotImplementedError

    def console_text(self) -> str:
        raise NotImplementedError

    def log(self, words: str) -> None:
        say(f"{self.name}: {words}")

    def within(self, leader: int, command: str, timeout: float | None) -> tuple[int, str]:
        """Runs a command beside PID 1 of the guest; 124 when its time is up."""
        enter = ["nsenter", f"--target={leader}", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]
        limit = [] if timeout is None else ["timeout", "--kill-after=2", str(timeout)]
        bins = [f"{package}/bin" for package in self.system.packages]
        path = ":".join([_PATH, _POSTGRESQL, *bins])
        done = subprocess.run(
            [*enter, *limit, "bash", "-c", f"set -euo pipefail; {command}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            errors="replace",
            env={"PATH": path, "HOME": "/root", "LANG": "C.UTF-8"},
        )
        return done.returncode, done.stdout

    def execute(
        self, command: str, check_return: bool = True, check_output: bool = True, timeout: float | None = DEFAULT
    ) -> tuple[int, str]:
        del check_return, check_output
        return self.within(self.connect(), command, timeout)

    def succeed(self, *commands: str, timeout: float | None = DEFAULT) -> str:
        said = ""
        for command in commands:
            with nested(f"{self.name}: must succeed: {command}"):
                code, out = self.execute(command, timeout=timeout)
            if code:
                raise ScriptFailed(f"{self.name}: command `{command}` failed (exit code {code}): {out}")
            said += out
        return said

    def fail(self, *commands: str, timeout: float | None = DEFAULT) -> str:
        said = ""
        for command in commands:
            with nested(f"{self.name}: must fail: {command}"):
                code, out = self.execute(command, timeout=timeout)
            if code == 0:
                raise ScriptFailed(f"{self.name}: command `{command}` unexpectedly succeeded: {out}")
            said += out
        return said

    def wait_until_succeeds(self, command: str, timeout: float = DEFAULT) -> str:
        return self._until(command, True, timeout)

    def wait_until_fails(self, command: str, timeout: float = DEFAULT) -> str:
        return self._until(command, False, timeout)

    def _until(self, command: str, good: bool, timeout: float) -> str:
        out = ""

        def attempt(last: bool) -> bool:
            nonlocal out
            code, out = self.execute(command, timeout=timeout)
            if last and (code == 0) != good:
                self.log(f"last exit code {code}: {out}")
            return (code == 0) == good

        with nested(f"{self.name}: waiting for {'success' if good else 'failure'}: {command}"):
            retry(attempt, timeout)
        return out

    # Units.

    def systemctl(self, query: str, user: str | None = None) -> tuple[int, str]:
        if user is not None:
            raise ScriptFailed("guests have no user managers")
        return self.execute(f"systemctl {query}")

    def get_unit_info(self, unit: str, user: str | None = None) -> dict[str, str]:
        code, out = self.systemctl(f"--no-pager show {shlex.quote(unit)}", user)
        if code:
            raise ScriptFailed(f'retrieving systemctl info for unit "{unit}" failed with exit code {code}')
        return dict(line.split("=", 1) for line in out.splitlines() if "=" in line)

    def get_unit_property(self, unit: str, property: str, user: str | None = None) -> str:
        code, out = self.systemctl(f"--no-pager show {shlex.quote(unit)} --property={property}", user)
        key, found, value = out.rstrip("\n").partition("=")
        if code or not found or key != property:
            raise ScriptFailed(f'no property "{property}" of unit "{unit}": {out}')
        return value

    def wait_for_unit(self, unit: str, user: str | None = None, timeout: float = DEFAULT) -> None:
        def attempt(_: bool) -> bool:
            state = self.get_unit_property(unit, "ActiveState", user)
            if state == "failed":
                raise ScriptFailed(f'unit "{unit}" reached state "failed"')
            if state == "inactive" and "No jobs" in self.systemctl("list-jobs --full 2>&1", user)[1]:
                if self.get_unit_property(unit, "ActiveState", user) == state:
                    raise ScriptFailed(f'unit "{unit}" is inactive and there are no pending jobs')
            return state == "active"

        with nested(f"{self.name}: waiting for unit {unit}"):
            retry(attempt, timeout)

    def require_unit_state(self, unit: str, require_state: str = "active") -> None:
        state = self.get_unit_property(unit, "ActiveState")
        if state != require_state:
            raise ScriptFailed(f"{self.name}: unit {unit} is {state}, not {require_state}")

    def start_job(self, job: str, user: str | None = None) -> tuple[int, str]:
        return self.systemctl(f"start {job}", user)

    def stop_job(self, job: str, user: str | None = None) -> tuple[int, str]:
        return self.systemctl(f"stop {job}", user)

    # What is there.

    def wait_for_file(self, path: str, timeout: float = DEFAULT) -> None:
        self.wait_until_succeeds(f"test -e {path}", timeout)

    def wait_for_open_port(self, port: int, addr: str = "localhost", timeout: float = DEFAULT) -> None:
        self.wait_until_succeeds(f"nc -z {addr} {port}", timeout)

    def wait_for_closed_port(self, port: int, addr: str = "localhost", timeout: float = DEFAULT) -> None:
        self.wait_until_fails(f"nc -z {addr} {port}", timeout)

    def wait_for_open_unix_socket(self, addr: str, is_datagram: bool = False, timeout: float = DEFAULT) -> None:
        kind = "-uU" if is_datagram else "-U"
        self.wait_until_succeeds(f"nc -z {kind} {addr}", timeout)

    def wait_for_console_text(self, regex: str, timeout: float = DEFAULT) -> None:
        retry(lambda _: re.search(regex, self.console_text()) is not None, timeout)

    def sleep(self, seconds: float) -> None:
        self.succeed(f"sleep {seconds}", timeout=None)

    # Files in and out.

    def copy_from_host(self, source: str, target: str) -> None:
        at = self.disk.path(target)
        at.parent.mkdir(parents=True, exist_ok=True)
        _copy(Path(source), at)

    copy_from_host_via_shell = copy_from_host

    def copy_from_machine(self, source: str, target_dir: str = "") -> None:
        """Below the folder the driver was started in."""
        into = Path.cwd() / target_dir
        into.mkdir(parents=True, exist_ok=True)
        _copy(self.disk.path(source), into / Path(source).name)

    def journal(self, lines: int) -> str:
        """The end of the journal, also of a machine that is down: its disk is still here."""
        ask = ["journalctl", "--no-pager", "--output=short-precise", f"--lines={lines}"]
        ask += [f"--directory={self.disk.root}/var/log/journal"]
        return subprocess.run(ask, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=30).stdout


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copy(source, target)
