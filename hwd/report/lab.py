"""What a run's times come from: which timing each twin draws from, and whether NICs negotiate, in each of its reconfigurations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from hwd.config.yaml.tree import parse_tree
from hwd.records import Run
from hwd.timeline import Timeline
from hwd.twin.timing import NIC_TIMINGS


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """`timings`: names of those that the twins drew from; empty on hardware. `autoneg`: whether NICs negotiated, both where some did; empty where nobody knows."""

    timings: frozenset[str] = frozenset()
    autoneg: frozenset[bool] = frozenset()

    def __or__(self, other: "Conditions") -> "Conditions":
        return Conditions(timings=self.timings | other.timings, autoneg=self.autoneg | other.autoneg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """Timings that a testbed file names: of the twins of switches and of what else they say, and of NICs by host."""

    others: frozenset[str] = frozenset()
    nics: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run) -> Self:
        """From the testbed's text as it was recorded, wherever a `timing` stands in it; none of what cannot be read."""
        parsed = plain(run.testbed_text)
        hosts = parsed.pop("hosts", None)
        nics = {
            host: names[0]
            for host, entry in (hosts.items() if isinstance(hosts, dict) else ())
            if (names := sorted(_timings(entry)))
        }
        return cls(others=frozenset(_timings(parsed)), nics=nics)

    @property
    def named(self) -> frozenset[str]:
        """All of them, as the testbed file has them."""
        return self.others | frozenset(self.nics.values())

    def conditions(self, timeline: Timeline) -> Conditions:
        """Those of the links that it moved, by the settings that were in force."""
        moved = [link.link for link in timeline.links if not link.kept]
        found = Conditions(timings=self.others)
        for end in {end for link in moved for end in link.ends}:
            set_to = timeline.settings.get(str(end), {}).get("autoneg")
            timing = NIC_TIMINGS.get(self.nics.get(end.host, ""))
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
    """The values of a file of the project, as its own reader has them; nothing where it cannot be read, since whoever ran it was told."""
    root = parse_tree(text.encode("utf-8", "surrogatepass"), file="recorded").root
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
