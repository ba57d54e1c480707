"""Verbs that mean one thing and are done in two ways: here for guests, in tests/vm/lib for NixOS machines."""

from .machine import Machine
from .patience import ScriptFailed
from .saying import say
from .switch import plan

# What is no unit of the configuration, and how a change of it comes to be.
_APPLIED = {
    "firewall": "nft --file /etc/nftables.conf",
    "sysctl": "systemctl restart systemd-sysctl",
    "tmpfiles": "systemd-tmpfiles --create",
}


def switch(machine: Machine, name: str | None) -> None:
    """Switches to a specialisation of the node, or back to its own configuration, as `nixos-rebuild switch` does."""
    old = machine.system
    new = machine.node.base if name is None else machine.node.specialisations[name]
    listed = machine.succeed("systemctl list-units --plain --no-legend --state=active,activating,reloading")
    active = {line.split()[0] for line in listed.splitlines() if line.strip()}
    steps = plan(old, new, active)
    say(f"{machine.name}: switch to {name or 'the base'}: {steps.words()}")

    if steps.stop:
        machine.succeed(f"systemctl stop {' '.join(steps.stop)}")
    machine.disk.change(old, new)
    machine.system = new
    for part, command in _APPLIED.items():
        if getattr(old, part) != getattr(new, part):
            machine.succeed(command)
    machine.succeed("systemctl reset-failed", "systemctl daemon-reload")

    gone = [unit for unit in steps.reload if machine.systemctl(f"is-active --quiet {unit}")[0]]
    running = [unit for unit in steps.reload if unit not in gone]
    targets = sorted(unit for unit in active if unit.endswith(".target") and not _refuses(machine, unit))
    failed = []
    for verb, units in (("reload", running), ("restart", steps.restart), ("start", steps.start + gone + targets)):
        if units and machine.systemctl(f"{verb} {' '.join(units)}")[0]:
            failed.append(f"{verb} {' '.join(units)}")
    if failed:
        raise ScriptFailed(f"{machine.name}: switch to {name}: failed to {', '.join(failed)}")


def _refuses(machine: Machine, unit: str) -> bool:
    return machine.get_unit_property(unit, "RefuseManualStart") == "yes"
