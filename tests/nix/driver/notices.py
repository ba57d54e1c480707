"""What a container says of itself while it runs: nspawn passes it on, and stands still when nobody listens."""

import contextlib
import socket
import threading
from pathlib import Path

_LEADER = "X_NSPAWN_LEADER_PID"


class Notices:
    """Listens until it is closed."""

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        # PID 1 of the guest as the driver counts, once nspawn has said it.
        self.leader: int | None = None
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while heard := self._socket.recv(4096):
                for line in heard.decode(errors="replace").splitlines():
                    key, _, value = line.partition("=")
                    if key == _LEADER:
                        self.leader = int(value)
