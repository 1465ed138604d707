"""The conditions of a run: the timing of each twin, and whether NICs negotiate, in each of its reconfigurations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Self

from hwd.config.yaml.tree import parse_tree
from hwd.model.recorded_run import Run
from hwd.timeline import Timeline
from hwd.twin.nic_timing import NIC_TIMINGS


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The conditions of runs. `timings`: names of the timings of the twins; empty on hardware. `autoneg`: whether NICs
    negotiated, both where some did; empty where that is unknown.
    """

    timings: frozenset[str] = frozenset()
    autoneg: frozenset[bool] = frozenset()

    def __or__(self, other: "Conditions") -> "Conditions":
        return Conditions(timings=self.timings | other.timings, autoneg=self.autoneg | other.autoneg)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimings:
    """Timings in a testbed file: of the switches' twins, and of NICs by host. `set_to`: those that the run had given to
    NICs when a reconfiguration began, by its id and by host.
    """

    others: frozenset[str] = frozenset()
    nics: Mapping[str, str] = field(default_factory=dict)
    set_to: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run, *, set_to: Mapping[str, Mapping[str, str]] = MappingProxyType({})) -> Self:
        """Read it from the recorded text of the testbed, wherever it has a `timing`; parts that cannot be
        read are ignored.
        """
        parsed = plain(run.testbed_text)
        hosts = parsed.pop("hosts", None)
        nics = {
            host: names[0]
            for host, entry in (hosts.items() if isinstance(hosts, dict) else ())
            if (names := sorted(_timings(entry)))
        }
        return cls(others=frozenset(_timings(parsed)), nics=nics, set_to=set_to)

    @property
    def named(self) -> frozenset[str]:
        """All timings, by their names in the testbed file."""
        return self.others.union(self.nics.values(), *(nics.values() for nics in self.set_to.values()))

    def conditions(self, timeline: Timeline) -> Conditions:
        """The conditions of the links that it moved, by the settings that were in force."""
        moved = [link.link for link in timeline.moved]
        found = Conditions(timings=self.others)
        nics = {**self.nics, **self.set_to.get(timeline.reconfiguration, {})}
        for end in {end for link in moved for end in link.ends}:
            set_to = timeline.settings.get(str(end), {}).get("autoneg")
            timing = NIC_TIMINGS.get(nics.get(end.host, ""))
            if timing is not None and isinstance(set_to, bool) and set_to is not timing.autoneg and timing.other:
                timing = NIC_TIMINGS[timing.other]
            if timing is None:
                known = frozenset({set_to}) if isinstance(set_to, bool) else frozenset({True, False})
                found |= Conditions(autoneg=known)
            else:
                negotiates = set_to if isinstance(set_to, bool) else timing.autoneg
                found |= Conditions(timings=frozenset({timing.name}), autoneg=frozenset({negotiates}))
        return found


def plain(text: str) -> dict[str, Any]:
    """The values of a YAML file of the project; empty where it cannot be read, since its problems were
    reported at the run.
    """
    root = parse_tree(text, file="recorded").root
    values: dict[str, Any] = root.plain() if root is not None else {}
    return values


def _timings(part: object) -> set[str]:
    found: set[str] = set()
    pending: list[object] = [part]
    while pending:
        match pending.pop():
            case dict() as entry:
                if isinstance(name := entry.get("timing"), str):
                    found.add(name)
                pending += entry.values()
            case list() as entries:
                pending += entries
    return found
