"""The Debian root that all guests share: made once for a list of packages, with nothing but mmdebstrap."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .patience import NotHere

SUITE = "trixie"
PACKAGES = [
    # An init, and what its units in these tests use.
    "dbus",
    "libnss-systemd",
    "systemd",
    "systemd-sysv",
    # A cluster.
    "etcd-client",
    "etcd-server",
    "patroni",
    "postgresql-17",
    "python3-etcd",
    "python3-psycopg2",
    # What scripts say.
    "curl",
    "iproute2",
    "iputils-ping",
    "jq",
    "netcat-openbsd",
    "nftables",
    "procps",
    "python3",
    "socat",
]
# Words for people, which nobody reads in a guest.
_LEFT_OUT = ["/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*"]
# Debian's package would make a cluster of its own.
_BEFORE = [
    'mkdir -p "$1/etc/postgresql-common"',
    'echo "create_main_cluster = false" > "$1/etc/postgresql-common/createcluster.conf"',
]
_WHOLE = "etc/helios-guest-root"


def ensure() -> Path:
    """The folder of the root; made now where it is not there yet."""
    if os.geteuid() != 0:
        raise NotHere("a Debian root is made by root")
    cache = Path(os.environ.get("HELIOS_GUEST_ROOTS", "/var/lib/helios-lab/guests"))
    cache.mkdir(parents=True, exist_ok=True)
    recipe = " ".join([SUITE, *PACKAGES, *_LEFT_OUT, *_BEFORE])
    root = cache / f"{SUITE}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / _WHOLE).exists():
            shutil.rmtree(root, ignore_errors=True)
            _make(root)
            (root / _WHOLE).write_text(recipe + "\n")
    return root


def _make(root: Path) -> None:
    if shutil.which("mmdebstrap") is None:
        raise NotHere("there is no mmdebstrap")
    print(f"making a Debian root in {root}", file=sys.stderr)
    command = ["mmdebstrap", "--mode=root", "--variant=minbase", "--components=main"]
    command += [f"--include={','.join(PACKAGES)}", "--dpkgopt=force-unsafe-io"]
    options = ['Acquire::Languages "none"', 'Acquire::Retries "5"', 'APT::Install-Recommends "false"']
    command += [f"--aptopt={option}" for option in options]
    command += [f"--dpkgopt=path-exclude={path}" for path in _LEFT_OUT]
    command += [f"--essential-hook={step}" for step in _BEFORE]
    with tempfile.TemporaryFile("w+") as said:
        done = subprocess.run([*command, SUITE, str(root)], stdout=said, stderr=said, timeout=600)
        if done.returncode:
            said.seek(0)
            raise NotHere(f"mmdebstrap failed: {said.read()[-2000:]}")


if __name__ == "__main__":
    try:
        print(ensure())
    except NotHere as error:
        sys.exit(f"no Debian root: {error}")
