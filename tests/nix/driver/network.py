"""The one network of the guests: a bridge, a cable to each, and the addresses a NixOS test gives."""

import contextlib
from dataclasses import dataclass

from .host import run
from .manifest import Firewall
from .patience import NotHere

BRIDGE = "br1"
# The name of the interface in a NixOS test.
INTERFACE = "eth1"


@dataclass(frozen=True)
class Address:
    """Where a node is: its number is its place among the sorted names."""

    name: str
    number: int

    @property
    def ipv4(self) -> str:
        return f"192.168.1.{self.number}"

    @property
    def ipv6(self) -> str:
        return f"2001:db8:1::{self.number:x}"


def addresses(names: list[str]) -> list[Address]:
    return [Address(name, place) for place, name in enumerate(sorted(names), 1)]


def hosts(own: Address, everybody: list[Address]) -> str:
    """As NixOS has it: a machine's own name means this address first."""
    lines = ["127.0.0.1 localhost", "::1 localhost", f"127.0.0.2 {own.name}"]
    lines += [f"{one.ipv4} {one.name}" for one in everybody]
    lines += [f"{one.ipv6} {one.name}" for one in everybody]
    return "\n".join(lines) + "\n"


def lay() -> None:
    """The bridge, in the driver's own network namespace."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "link", "set", BRIDGE, "up")


class Cable:
    """The host's end of a guest's cable; nspawn makes and removes it with the guest."""

    def __init__(self, machine: str) -> None:
        self._end = f"vb-{machine}"[:15]

    def plug(self, together: bool) -> None:
        run("ip", "link", "set", self._end, "up" if together else "down")

    def cut(self) -> None:
        """Before a power loss: nobody shall see the kernel close the sockets of killed processes."""
        with contextlib.suppress(NotHere):
            self.plug(False)


def setup_unit(address: Address) -> str:
    """The unit that brings the guest's end up, before anything that waits for a network."""
    steps = [
        "ip link set lo up",
        f"ip link set host0 name {INTERFACE}",
        f"ip addr add {address.ipv4}/24 dev {INTERFACE}",
        f"ip addr add {address.ipv6}/64 dev {INTERFACE} nodad",
        f"ip link set {INTERFACE} up",
    ]
    return f"""[Unit]
Description=The cable of this guest
DefaultDependencies=no
Wants=network.target
Before=network.target network-online.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -ec '{"; ".join(steps)}'
"""


def rules(wall: Firewall | None) -> str:
    """NixOS's firewall as nftables says it: what is not asked for and not allowed is dropped."""
    if wall is None:
        return "flush ruleset\n"
    allowed = [f"    iifname {name} accept\n" for name in ("lo", *wall.trusted)]
    for protocol, ports in (("tcp", wall.tcp), ("udp", wall.udp)):
        if ports:
            allowed.append(f"    {protocol} dport {{ {', '.join(map(str, ports))} }} accept\n")
    return f"""flush ruleset
table inet nixos-fw {{
  chain input {{
    type filter hook input priority filter; policy drop;
    ct state {{ established, related }} accept
    meta l4proto {{ icmp, ipv6-icmp }} accept
{"".join(allowed)}  }}
}}
"""
