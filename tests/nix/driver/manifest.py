"""What Nix evaluated: the nodes of a test as units, /etc, firewall and packages, and the script."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Unit:
    text: str
    wanted_by: tuple[str, ...] = ()
    required_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class EtcFile:
    source: str
    # "symlink", or the mode of a copy; a number with a plus is a user's own.
    mode: str = "symlink"
    user: str = "+0"
    group: str = "+0"


@dataclass(frozen=True)
class Firewall:
    tcp: tuple[int, ...] = ()
    udp: tuple[int, ...] = ()
    trusted: tuple[str, ...] = ()


@dataclass(frozen=True)
class System:
    """One configuration of a node: what `switch` moves between."""

    units: dict[str, Unit] = field(default_factory=dict)
    etc: dict[str, EtcFile] = field(default_factory=dict)
    firewall: Firewall | None = None
    packages: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    sysctl: dict[str, Any] = field(default_factory=dict)
    tmpfiles: tuple[str, ...] = ()
    # Address -> names, beside those of the nodes.
    hosts: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Node:
    base: System
    specialisations: dict[str, System]


@dataclass(frozen=True)
class Manifest:
    name: str
    script: str
    # The guests see it at the same place.
    store: Path
    nodes: dict[str, Node]


def load(path: Path) -> Manifest:
    told = json.loads(path.read_text())
    nodes = {name: _node(node) for name, node in told["nodes"].items()}
    return Manifest(told["name"], told["testScript"], Path(told["storeDir"]), nodes)


def _node(told: dict[str, Any]) -> Node:
    others = told.get("specialisations", {})
    return Node(_system(told["base"]), {name: _system(one) for name, one in others.items()})


def _system(told: dict[str, Any]) -> System:
    wall = told.get("firewall")
    return System(
        units={
            name: Unit(unit["text"], tuple(unit.get("wantedBy", ())), tuple(unit.get("requiredBy", ())))
            for name, unit in told.get("units", {}).items()
        },
        etc={path: EtcFile(**file) for path, file in told.get("etc", {}).items()},
        firewall=wall
        and Firewall(tuple(wall.get("tcp", ())), tuple(wall.get("udp", ())), tuple(wall.get("trustedInterfaces", ()))),
        packages=tuple(told.get("packages", ())),
        users=tuple(told.get("users", ())),
        groups=tuple(told.get("groups", ())),
        sysctl=told.get("sysctl", {}),
        tmpfiles=tuple(told.get("tmpfiles", ())),
        hosts={address: tuple(names) for address, names in told.get("hosts", {}).items()},
    )
