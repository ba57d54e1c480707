"""What a client program has seen: written at its end, to be read by the test script."""

import asyncio
import json
import os
import signal
import time


def until_told() -> asyncio.Event:
    """Set by SIGTERM, which is how a test script ends a client program."""
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    return told


class Marks:
    """How long each thing took that a client waited for."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._since = time.monotonic()

    def restart(self) -> None:
        self._since = time.monotonic()

    def reached(self) -> None:
        now = time.monotonic()
        self.longest = max(self.longest, now - self._since)
        self._since = now


def write(path: str, said: dict) -> None:
    """As a whole, or not at all."""
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(said, file)
    os.rename(path + ".part", path)
