"""One run: the guests of a manifest, the script with its words, and what is told when it fails."""

import contextlib
import linecache
import os
import re
import signal
import time
import traceback
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from . import network, verbs
from .disk import Disk
from .machine import Machine
from .manifest import Manifest
from .patience import ScriptFailed, retry
from .saying import say

_JOURNAL = 150


class _Checks(unittest.TestCase):
    """`t` of the NixOS driver: assertions that show both sides."""

    failureException = ScriptFailed


def run(manifest: Manifest, root: Path, folder: Path) -> bool:
    """Whether the script ended well. However it ended, no guest is left."""
    machines = _furnished(manifest, root, folder)
    try:
        _execute(manifest, _words(machines))
        say("the script ended well")
        return True
    except Exception:
        print(traceback.format_exc(), flush=True)
        _tell(machines)
        return False
    finally:
        for sign in (signal.SIGALRM, signal.SIGINT, signal.SIGTERM):
            signal.signal(sign, signal.SIG_IGN)
        for machine in machines:
            machine.release()


def _furnished(manifest: Manifest, root: Path, folder: Path) -> list[Machine]:
    """Every machine with its disk, none started yet."""
    network.lay()
    everybody = network.addresses(list(manifest.nodes))
    machines = []
    for address in everybody:
        node, place = manifest.nodes[address.name], folder / address.name
        disk = Disk(place, root)
        disk.furnish(address, everybody, node.base)
        machines.append(Machine(address, node, disk, network.BRIDGE, manifest.store, place))
    return machines


def _execute(manifest: Manifest, words: dict[str, Any]) -> None:
    """With the text where a traceback finds it, so that a failure shows the line."""
    name = f"<testScript of {manifest.name}>"
    linecache.cache[name] = (len(manifest.script), None, manifest.script.splitlines(keepends=True), name)
    exec(compile(manifest.script, name, "exec"), words)


def _words(machines: list[Machine]) -> dict[str, Any]:
    """The names a script finds."""
    named: dict[str, Any] = {re.sub(r"[^A-Za-z0-9_]", "_", machine.name): machine for machine in machines}
    if len(machines) == 1:
        named["machine"] = machines[0]
    return {
        **named,
        "Machine": Machine,
        "join_all": _each(machines, Machine.wait_for_shutdown),
        "log": say,
        "machines": machines,
        "os": os,
        "retry": retry,
        "start_all": _each(machines, Machine.start),
        "subtest": _subtest,
        "switch": verbs.switch,
        "t": _Checks(),
    }


def _each(machines: list[Machine], what: Callable[[Machine], None]) -> Callable[[], None]:
    def all_of_them() -> None:
        for machine in machines:
            what(machine)

    return all_of_them


@contextlib.contextmanager
def _subtest(name: str) -> Iterator[None]:
    say(f"subtest: {name}")
    began = time.monotonic()
    try:
        yield
    except BaseException:
        say(f"subtest failed: {name}")
        raise
    say(f"subtest: {name}: done in {time.monotonic() - began:.1f} s")


def _tell(machines: list[Machine]) -> None:
    """What somebody needs who was not there."""
    for machine in machines:
        print(f"--- journal of {machine.name} ({'up' if machine.is_up() else 'down'})")
        print(machine.journal(_JOURNAL), flush=True)
