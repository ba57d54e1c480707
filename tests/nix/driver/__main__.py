"""python3 -m driver MANIFEST: exit code 0 when the script ended well, 1 when not, 69 when it cannot run here."""

import argparse
import os
import signal
import sys
from pathlib import Path

from . import guest_root, host, manifest, script
from .patience import NotHere, ScriptFailed

# EX_UNAVAILABLE: the test target skips a scenario by name on it, outside CI.
UNAVAILABLE = 69


def main() -> int:
    told = _arguments()
    try:
        inside = os.environ.get(host.INSIDE)
        if inside is None:
            root = told.root or guest_root.ensure()
            return host.enter([f"--root={root}", f"--timeout={told.timeout}", str(told.manifest)])
        folder = Path(inside)
        host.prepare(folder)
        _bound(told.timeout)
        return 0 if script.run(manifest.load(told.manifest), told.root, folder) else 1
    except NotHere as error:
        print(f"cannot run guests here: {error}", file=sys.stderr)
        return UNAVAILABLE
    except KeyboardInterrupt:
        return 130


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="driver", description=__doc__)
    parser.add_argument("--root", type=Path, help="a Debian root; made and kept where none is named")
    parser.add_argument("--timeout", type=int, default=600, help="seconds for the whole script")
    parser.add_argument("manifest", type=Path)
    return parser.parse_args()


def _bound(seconds: int) -> None:
    """As PID 1 of its namespace the driver hears only what it listens to."""

    def over(*_: object) -> None:
        raise ScriptFailed(f"the script was not over after {seconds} s")

    signal.signal(signal.SIGALRM, over)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.alarm(seconds)


sys.exit(main())
