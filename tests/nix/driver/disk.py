"""A guest's disk: the Debian root below, a layer of its own above, and a configuration written into it."""

import os
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path

from .host import run
from .manifest import EtcFile, System, Unit
from .network import Address, hosts, rules, setup_unit

_UNITS = "/etc/systemd/system"
# What a guest has no use for, or what would start a server of Debian's own.
_MASKED = [
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "console-getty.service",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "etcd.service",
    "fstrim.timer",
    "getty.target",
    "patroni.service",
    "postgresql.service",
    "systemd-logind.service",
    "systemd-networkd-wait-online.service",
    "systemd-pstore.service",
]


class Disk:
    """Where a guest's files are on the host, while it runs and after."""

    def __init__(self, folder: Path, lower: Path) -> None:
        self.root = folder / "root"
        upper, work = folder / "upper", folder / "work"
        for part in (self.root, upper, work):
            part.mkdir(parents=True)
        layers = f"lowerdir={lower},upperdir={upper},workdir={work}"
        run("mount", "-t", "overlay", "overlay", "-o", layers, str(self.root))

    def furnish(self, address: Address, everybody: list[Address], system: System) -> None:
        """Before the first boot."""
        self._nodes = hosts(address, everybody)
        self.write("/etc/hostname", address.name + "\n")
        self.write("/etc/resolv.conf", "")
        # The same at each boot, so that the journal of before a crash is still this machine's.
        self.write("/etc/machine-id", uuid.uuid5(uuid.NAMESPACE_DNS, address.name).hex + "\n")
        (self.root / "var/log/journal").mkdir(exist_ok=True)
        for unit in _MASKED:
            self.link(f"{_UNITS}/{unit}", "/dev/null")
        self.write(f"{_UNITS}/guest-cable.service", setup_unit(address))
        for target in ("sysinit.target", "network-online.target"):
            self.link(f"{_UNITS}/{target}.wants/guest-cable.service", "../guest-cable.service")
        self.link(f"{_UNITS}/sysinit.target.wants/nftables.service", "/usr/lib/systemd/system/nftables.service")
        self.change(System(), system)

    def change(self, old: System, new: System) -> None:
        """Takes what only `old` had away and writes what `new` has; a link is replaced in one step."""
        for group in new.groups:
            self._account("groupadd", "/etc/group", group)
        for user in new.users:
            self._account("useradd", "/etc/passwd", user)
        for path in old.etc.keys() - new.etc.keys():
            self.path(f"/etc/{path}").unlink(missing_ok=True)
        for path, file in new.etc.items():
            self._etc(path, file)
        for name, unit in old.units.items():
            for link in _links(name, unit):
                self.path(link).unlink(missing_ok=True)
            if name not in new.units:
                self.path(f"{_UNITS}/{name}").unlink(missing_ok=True)
        for name, unit in new.units.items():
            self.write(f"{_UNITS}/{name}", unit.text)
            for link in _links(name, unit):
                self.link(link, f"../{name}")
        self.write("/etc/nftables.conf", rules(new.firewall))
        self.write("/etc/hosts", self._nodes + _lines(f"{at} {' '.join(names)}" for at, names in new.hosts.items()))
        self.write(
            "/etc/sysctl.d/60-nixos.conf", _lines(f"{key} = {_word(value)}" for key, value in new.sysctl.items())
        )
        self.write("/etc/tmpfiles.d/00-nixos.conf", _lines(new.tmpfiles))

    def path(self, within: str) -> Path:
        return self.root / within.lstrip("/")

    def write(self, within: str, text: str) -> None:
        """A file instead of whatever is there: a link is not followed, the lower layer not touched."""
        at = self.path(within)
        at.parent.mkdir(parents=True, exist_ok=True)
        beside = at.with_name(f".{at.name}.new")
        beside.write_text(text)
        beside.rename(at)

    def link(self, within: str, target: str) -> None:
        at = self.path(within)
        at.parent.mkdir(parents=True, exist_ok=True)
        beside = at.with_name(f".{at.name}.new")
        beside.unlink(missing_ok=True)
        beside.symlink_to(target)
        beside.rename(at)

    def _etc(self, path: str, file: EtcFile) -> None:
        if file.mode == "symlink":
            self.link(f"/etc/{path}", file.source)
            return
        at = self.path(f"/etc/{path}")
        at.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file.source, at)
        os.chmod(at, int(file.mode, 8))
        owner = f"{file.user.removeprefix('+')}:{file.group.removeprefix('+')}"
        run("chroot", str(self.root), "chown", owner, f"/etc/{path}")

    def _account(self, program: str, book: str, name: str) -> None:
        known = self.path(book).read_text().splitlines()
        if not any(line.startswith(f"{name}:") for line in known):
            run("chroot", str(self.root), program, "--system", name)


def _links(name: str, unit: Unit) -> list[str]:
    wants = [f"{_UNITS}/{target}.wants/{name}" for target in unit.wanted_by]
    return wants + [f"{_UNITS}/{target}.requires/{name}" for target in unit.required_by]


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _word(value: object) -> str:
    """NixOS writes a boolean of sysctl as a number."""
    return str(int(value)) if isinstance(value, bool) else str(value)
