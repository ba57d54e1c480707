"""The log of a run: one line at a time, with the seconds since the start."""

import contextlib
import time
from collections.abc import Iterator

_began = time.monotonic()


def say(words: str) -> None:
    print(f"[{time.monotonic() - _began:7.2f}] {words}", flush=True)


@contextlib.contextmanager
def nested(words: str) -> Iterator[None]:
    """Says what is done, and how long it took when that was long."""
    say(words)
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    if took > 1:
        say(f"… {words.splitlines()[0][:80]}: {took:.1f} s")
