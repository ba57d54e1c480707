"""However a run ends, somebody can see why, and no guest is left."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

STARTED = "box: up after"
CAN = os.geteuid() == 0 or "CI" in os.environ


@unittest.skipUnless(CAN, "guests need root")
class Endings(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.log = self.folder / "log"

    def begin(self, script: str) -> subprocess.Popen[bytes]:
        """The driver with one guest."""
        manifest = self.folder / "manifest.json"
        told = {"name": "box", "storeDir": "/srv", "testScript": script, "nodes": {"box": {"base": {}}}}
        manifest.write_text(json.dumps(told))
        with self.log.open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "driver", "--timeout=60", str(manifest)],
                stdout=log,
                stderr=log,
                # Whoever runs the tests in the background of a shell ignores it, and so would the driver.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )

    def wait_for(self, words: str) -> None:
        # The first run makes the guests' root.
        end = time.monotonic() + 300
        while words not in self.log.read_text():
            self.assertLess(time.monotonic(), end, self.log.read_text())
            time.sleep(0.1)

    def guests(self, pid: int) -> list[str]:
        """The containers of that driver."""
        lines = []
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                line = process.read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if line.startswith("systemd-nspawn") and f"/run/helios-guests-{pid}/" in line:
                    lines.append(line)
        return lines

    def nothing_is_left(self, pid: int) -> None:
        self.assertEqual(self.guests(pid), [])
        for place in ("/run", "/sys/fs/cgroup"):
            # Others' folders come and go meanwhile, which a walk does not mind.
            left = [at for at, _, _ in os.walk(place) if at.endswith(f"/helios-guests-{pid}")]
            self.assertEqual(left, [])

    def test_a_script_that_fails_shows_its_line_and_the_journals(self) -> None:
        run = self.begin("box.succeed('logger -t witness seen')\nassert 1 == 2, 'as it should'\n")
        self.assertEqual(run.wait(300), 1)
        said = self.log.read_text()
        self.assertIn("assert 1 == 2, 'as it should'", said)
        self.assertIn("--- journal of box (up)", said)
        self.assertIn("witness", said.split("--- journal")[1])
        self.nothing_is_left(run.pid)

    def test_a_command_that_hangs_is_ended(self) -> None:
        run = self.begin("assert box.execute('sleep 100', timeout=1)[0] == 124\n")
        self.assertEqual(run.wait(300), 0, self.log.read_text())

    def test_what_is_interrupted_leaves_nothing(self) -> None:
        for sign in (signal.SIGINT, signal.SIGTERM):
            run = self.begin("box.succeed('sleep 100')\n")
            self.wait_for(STARTED)
            run.send_signal(sign)
            # Longer than the driver's own patience with its guests, which it has twice.
            self.assertIn(run.wait(60), (130, 143))
            self.nothing_is_left(run.pid)

    def test_a_driver_that_is_killed_takes_its_guests_with_it(self) -> None:
        run = self.begin("box.succeed('sleep 100')\n")
        self.wait_for(STARTED)
        self.assertEqual(len(self.guests(run.pid)), 1)
        run.kill()
        run.wait(10)
        end = time.monotonic() + 20
        while self.guests(run.pid):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)


if __name__ == "__main__":
    unittest.main()
