"""What `switch-to-configuration switch` does to units, by the rules of switch-to-configuration-ng.

A unit whose text differs in nothing but X-Reload-Triggers= (or its ExecReload=) is reloaded. One that differs in more
is reloaded with X-ReloadIfChanged=, left alone without X-RestartIfChanged=, restarted with X-StopIfChanged=no, and
else stopped before the new files are in place and started after.
"""

from dataclasses import dataclass, field
from enum import Enum

from .manifest import System

# Keys of [Unit] whose change means nothing to a running unit.
_WORDS = {
    "AllowIsolate",
    "CollectMode",
    "Description",
    "Documentation",
    "IgnoreOnIsolate",
    "OnFailure",
    "OnFailureJobMode",
    "OnSuccess",
    "RefuseManualStart",
    "RefuseManualStop",
    "SourcePath",
    "StopWhenUnneeded",
}
_TRIGGERS = "X-Reload-Triggers"
# Text of a unit as section -> key -> values.
Sections = dict[str, dict[str, list[str]]]


class Change(Enum):
    NONE = "none"
    RELOAD = "reload"
    RESTART = "restart"


@dataclass
class Plan:
    """What to do with which units, in the order of the fields."""

    stop: list[str] = field(default_factory=list)
    reload: list[str] = field(default_factory=list)
    restart: list[str] = field(default_factory=list)
    start: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def words(self) -> str:
        parts = [f"{verb} {', '.join(units)}" for verb, units in vars(self).items() if units]
        return "; ".join(parts) or "no unit changes"


def plan(old: System, new: System, active: set[str]) -> Plan:
    """For each unit of ours that runs; what does not run is started by the targets that want it."""
    steps = Plan()
    for name in sorted(old.units.keys() & active):
        before = parse(old.units[name].text)
        if name not in new.units:
            if _says(before, "Unit", "X-StopOnRemoval", True):
                steps.stop.append(name)
            continue
        after = parse(new.units[name].text)
        change = compare(before, after)
        if change is Change.RELOAD:
            steps.reload.append(name)
        elif change is Change.RESTART:
            _restart(steps, name, after)
    return steps


def _restart(steps: Plan, name: str, unit: Sections) -> None:
    if _says(unit, "Service", "X-ReloadIfChanged", False):
        steps.reload.append(name)
    elif (
        not _says(unit, "Service", "X-RestartIfChanged", True)
        or _says(unit, "Unit", "RefuseManualStop", False)
        or _says(unit, "Unit", "X-OnlyManualStart", False)
        or name.endswith((".path", ".slice", ".socket", ".target"))
    ):
        steps.left.append(name)
    elif not _says(unit, "Service", "X-StopIfChanged", True) or not name.endswith(".service"):
        steps.restart.append(name)
    else:
        steps.stop.append(name)
        steps.start.append(name)


def compare(before: Sections, after: Sections) -> Change:
    """Whether the difference of two texts asks for a restart, a reload, or nothing."""
    found = Change.NONE
    for section in before.keys() | after.keys():
        was, now = before.get(section, {}), after.get(section, {})
        for key in was.keys() | now.keys():
            if was.get(key) == now.get(key):
                continue
            here = _weight(section, key, now)
            if here is Change.RESTART:
                return here
            if here is Change.RELOAD:
                found = here
    return found


def _weight(section: str, key: str, now: dict[str, list[str]]) -> Change:
    """What one key that differs asks for; taking a trigger or an ExecReload= away asks for nothing."""
    if (section, key) in {("Unit", _TRIGGERS), ("Service", "ExecReload")}:
        return Change.RELOAD if key in now else Change.NONE
    if section == "Unit" and key in _WORDS:
        return Change.NONE
    return Change.RESTART


def parse(text: str) -> Sections:
    sections: Sections = {}
    section: dict[str, list[str]] = {}
    for line in text.replace("\\\n", " ").splitlines():
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        if line[0] == "[" and line[-1] == "]":
            section = sections.setdefault(line[1:-1], {})
        else:
            key, _, value = line.partition("=")
            section.setdefault(key.strip(), []).append(value.strip())
    # How a unit is enabled is in links, which systemd reads anew.
    sections.pop("Install", None)
    return sections


def _says(unit: Sections, section: str, key: str, otherwise: bool) -> bool:
    values = unit.get(section, {}).get(key)
    return otherwise if values is None else values[-1] in {"1", "yes", "true", "on"}
