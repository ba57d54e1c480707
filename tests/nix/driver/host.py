"""The room around all guests: namespaces of its own, so that nothing outlives the driver and the host sees nothing."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from .patience import NotHere

# Set for the inner process: the folder that holds the guests.
INSIDE = "HELIOS_GUESTS"
# Named by the process that made them.
_NAME = "helios-guests-"
_FOLDERS = Path("/run")
_NEEDED = {
    "systemd-nspawn": "systemd-container",
    "setpriv": "util-linux",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "ip": "iproute2",
}
_NAMESPACES = ["--mount", "--net", "--ipc", "--cgroup", "--pid", "--mount-proc"]
# How long the inner process may take to put the guests down.
_FAREWELL = 20


def run(*command: str) -> str:
    """A short command of the host; its words go into the error."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    if done.returncode:
        raise NotHere(f"`{' '.join(command)}` failed: {done.stdout.strip()}")
    return done.stdout


def enter(arguments: list[str]) -> int:
    """Starts the driver again within its own namespaces, and cleans up after it however it ends."""
    _require()
    cgroups = _cgroup2()
    _sweep(cgroups)
    cgroup, folder = cgroups / f"{_NAME}{os.getpid()}", _FOLDERS / f"{_NAME}{os.getpid()}"
    try:
        cgroup.mkdir()
        folder.mkdir(parents=True)
    except OSError as error:
        raise NotHere(f"cannot make a control group and a folder: {error}") from error
    try:
        return _inner(arguments, cgroup, folder)
    finally:
        _remove(cgroup)
        folder.rmdir()


def prepare(folder: Path) -> None:
    """Within the namespaces: memory for the guests' disks, one hierarchy of control groups, room for nspawn's notes."""
    run("mount", "--make-rprivate", "/")
    run("mount", "-t", "tmpfs", "-o", "mode=755,size=75%", "guests", str(folder))
    with contextlib.suppress(NotHere):
        run("umount", "--recursive", "/sys/fs/cgroup")
    run("mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup")
    notes = Path("/run/systemd")
    notes.mkdir(exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", "mode=755", "notes", str(notes))


def _require() -> None:
    if os.geteuid() != 0:
        raise NotHere("guests need root")
    for program, package in _NEEDED.items():
        if shutil.which(program) is None:
            raise NotHere(f"there is no {program} (package {package})")
    run("unshare", *_NAMESPACES, "--fork", "true")


def _inner(arguments: list[str], cgroup: Path, folder: Path) -> int:
    def join() -> None:
        (cgroup / "cgroup.procs").write_text("0")

    # Whoever dies takes the next one with it, down to the guests: `unshare` is deaf to anything but SIGKILL.
    inner = ["setpriv", "--pdeathsig=KILL", "unshare", *_NAMESPACES]
    inner += ["--fork", "--kill-child=SIGTERM", sys.executable, "-m", __package__, *arguments]
    for sign in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, lambda *_: sys.exit(143))
    running = subprocess.Popen(inner, env={**os.environ, INSIDE: str(folder)}, preexec_fn=join)
    try:
        return running.wait()
    finally:
        running.kill()
        running.wait()
        _settle(cgroup)


def _cgroup2() -> Path:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(where)
    raise NotHere("no control groups of version 2 are mounted")


def _members(cgroup: Path) -> list[Path]:
    """The group and all below it, the deepest first."""
    folders = [Path(at) for at, _, _ in os.walk(cgroup)]
    return sorted(folders, key=lambda path: -len(path.parts))


def _processes(group: Path) -> list[str]:
    # A group may go while its neighbours are read.
    with contextlib.suppress(OSError):
        return (group / "cgroup.procs").read_text().split()
    return []


def _settle(cgroup: Path) -> None:
    """Until nobody is in the group: with patience first, then without, and not for ever."""
    began = time.monotonic()
    while pids := [pid for group in _members(cgroup) for pid in _processes(group)]:
        waited = time.monotonic() - began
        if waited > 2 * _FAREWELL:
            break
        if waited > _FAREWELL:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.05)


def _remove(cgroup: Path) -> None:
    for group in _members(cgroup):
        with contextlib.suppress(OSError):
            group.rmdir()


def _sweep(cgroups: Path) -> None:
    """What drivers left that were killed."""
    for left in [*cgroups.glob(f"{_NAME}*"), *_FOLDERS.glob(f"{_NAME}*")]:
        if not Path("/proc", left.name.removeprefix(_NAME)).exists():
            _remove(left)
