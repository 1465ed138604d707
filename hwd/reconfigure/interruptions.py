"""Interruptions: what came between a reconfiguration and its ready links: switches that were away for a while, light that fell again, crossconnects that went."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import cast

from hwd.model.plan import PlannedLink, SwitchMoves
from hwd.model.state import Observed
from hwd_drivers.core.documents import Json
from hwd_drivers.core.values import CrossconnectState

DARKENED = {CrossconnectState.FAILED: "as failed", CrossconnectState.BLOCKED: "as held dark"}
"""States in which a crossconnect carries nothing, in words."""

NAMED = 8
"""So many ports are named, those that fell first; of more only their number is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """From when to when on the daemon's clock a switch could not be reached; `until_ns` is None while it cannot."""

    switch: str
    cause: str
    from_ns: int
    until_ns: int | None = None

    def text(self, *, zero_ns: int) -> str:
        """In words; times count from `zero_ns`."""
        since_s = (self.from_ns - zero_ns) / 1e9
        if self.until_ns is None:
            return f"{self.switch} is away since {since_s:.3f} s after the start ({self.cause})"
        until_s = (self.until_ns - zero_ns) / 1e9
        return f"{self.switch} was away from {since_s:.3f} to {until_s:.3f} s after the start ({self.cause})"


class Absences:
    """Those of the switches of one reconfiguration, in their order."""

    def __init__(self) -> None:
        self._absences: list[Absence] = []

    def down(self, switch: str, cause: str, *, at_ns: int) -> None:
        """It cannot be reached. Where that was told before, the first word of it stands."""
        if not any(one.switch == switch and one.until_ns is None for one in self._absences):
            self._absences.append(Absence(switch=switch, cause=cause, from_ns=at_ns))

    def up(self, switch: str, *, at_ns: int) -> None:
        """It is back."""
        self._absences = [
            replace(one, until_ns=at_ns) if one.switch == switch and one.until_ns is None else one
            for one in self._absences
        ]

    def over(self) -> tuple[Absence, ...]:
        """Those that have ended."""
        return tuple(one for one in self._absences if one.until_ns is not None)


def falls(events: Iterable[Mapping[str, Json]], links: Iterable[PlannedLink], *, zero_ns: int) -> Iterator[str]:
    """Where light fell after it had been there, or the carrier at ports whose light nobody sees, and when: `light fell at h0.eth0 (2.014 s)`.

    Light of a link that is moved falls once because it is moved; that is none of them.
    """
    links = list(links)
    ends = {str(end): planned.kept for planned in links for end in planned.routed.link.ends}
    at_ends = [event for event in events if f"{event['host']}.{event['port']}" in ends]
    events = sorted(
        at_ends, key=lambda event: cast(int, event["latest_ns"])
    )  # those of an earlier boot of an agent come late

    def find(fallen: Callable[[Mapping[str, Json]], bool | None]) -> Iterator[tuple[str, float]]:
        there = dict(ends)
        for event in events:
            port = f"{event['host']}.{event['port']}"
            match fallen(event), event["latest_ns"]:
                case True, int(at_ns) if there[port]:
                    there[port] = False
                    yield port, (at_ns - zero_ns) / 1e9
                case False, _:
                    there[port] = True
                case _:
                    pass

    light = list(find(_dark))
    seen = {f"{event['host']}.{event['port']}" for event in events if _dark(event) is not None}
    carrier = [one for one in find(_without_carrier) if one[0] not in seen]
    for what, found in (("light", light), ("carrier", carrier)):
        if found:
            more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
            yield f"{what} fell at {', '.join(f'{port} ({at_s:.3f} s)' for port, at_s in found[:NAMED])}{more}"


def gone(observed: Observed, moves: Iterable[SwitchMoves]) -> Iterator[str]:
    """What switches say now of crossconnects that are wanted of them and carry nothing: `ocs1 reports 1A-4B no more`."""
    for move in moves:
        if (readings := observed.get(move.switch)) is None:
            continue
        states = {reading.crossconnect: reading.state for reading in readings}
        found: dict[str, list[str]] = {}
        for one in (*move.add, *move.keep):
            state = states.get(one)
            if (how := "no more" if state is None else DARKENED.get(state)) is not None:
                found.setdefault(how, []).append(str(one))
        for how, ones in found.items():
            yield f"{move.switch} reports {', '.join(ones)} {how}"


def _dark(event: Mapping[str, Json]) -> bool | None:
    return {"dark": True, "light": False}.get(str(event["type"]))


def _without_carrier(event: Mapping[str, Json]) -> bool | None:
    data = event["data"]
    if event["type"] != "carrier" or not isinstance(data, Mapping) or not isinstance(up := data.get("carrier"), bool):
        return None
    return not up
