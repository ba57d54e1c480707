"""What a script raises when it fails, and the one way to wait: never without an end."""

import time
from collections.abc import Callable

# NixOS waits 900 s; a guest is up in two seconds, and what has not come after a minute will not come.
DEFAULT = 60
PAUSE = 0.2


class ScriptFailed(Exception):
    """What the script asked for is not so."""


class NotHere(Exception):
    """This machine cannot run guests: what lacks, in words."""


def retry(attempt: Callable[[bool], bool], timeout_seconds: float = DEFAULT) -> None:
    """Asks until the answer is yes; `attempt` hears whether it is the last time."""
    end = time.monotonic() + timeout_seconds
    while time.monotonic() < end:
        if attempt(False):
            return
        time.sleep(PAUSE)
    if not attempt(True):
        raise ScriptFailed(f"action timed out after {timeout_seconds} s")
