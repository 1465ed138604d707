"""Desired state of fibre ends: what the last confirmed reconfiguration of each one wanted, and how a switch differs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hwd.model.documents.reconfigurations import ReconfigurationEnded, WantedSwitch
from hwd.model.documents.switches import SwitchAdopted
from hwd.model.link import SwitchEnd
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState, PortSide, natural_key
from hwd_drivers.switching.moves import SwitchMoves


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredEnd:
    """What is wanted of one fibre end: this crossconnect, or none at all where it is None.

    `by`: the reconfiguration that wanted it, or in words where it came from.
    """

    crossconnect: Crossconnect | None
    by: str


DesiredEnds = Mapping[PortSide, DesiredEnd]
"""Of one switch. An end that no confirmed reconfiguration named is absent: nothing is wanted of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchDifference:
    """How the crossconnects of one switch differ from what is wanted.

    `missing`: wanted and not there, or reported as failed. `stale`: there, at an end of which something else is wanted.
    `unasked`: there, and nobody ever wanted anything of its ends.
    """

    switch: str
    missing: tuple[Crossconnect, ...] = ()
    stale: tuple[Crossconnect, ...] = ()
    unasked: tuple[Crossconnect, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.missing or self.stale)

    def __str__(self) -> str:
        """`ocs1: 1A-2B is missing, 1A-7B is stale`."""
        found = [f"{one} is missing" for one in self.missing] + [f"{one} is stale" for one in self.stale]
        return f"{self.switch}: {', '.join(found) or 'as desired'}"


def wanted_of(moves: Iterable[SwitchMoves], freed: Iterable[SwitchEnd] = ()) -> list[WantedSwitch]:
    """What moves want of their switches: what they add and keep, and no crossconnect at the ends that they leave.

    `freed`: ends that shall have none though no move leaves them.
    """
    to_free: dict[str, set[PortSide]] = {}
    for one in freed:
        to_free.setdefault(one.switch, set()).add(one.end)
    found = []
    for move in moves:
        wanted = sorted({*move.add, *move.keep}, key=Crossconnect.sort_key)
        used = {end for one in wanted for end in one.ends}
        left = {end for one in move.remove for end in one.ends} | to_free.get(move.switch, set())
        free = sorted(left - used, key=natural_key)
        if wanted or free:
            found.append(WantedSwitch(switch=move.switch, crossconnects=[*wanted], free=free))
    return found


def wanted_by(fact: ReconfigurationEnded | SwitchAdopted) -> tuple[tuple[WantedSwitch, str], ...]:
    """What a document says is desired from here on, each with whom that comes from."""
    match fact:
        case SwitchAdopted(switch=switch, crossconnects=crossconnects, free=free, by=by):
            return ((WantedSwitch(switch=switch, crossconnects=crossconnects, free=free), by),)
        case ReconfigurationEnded(reconfiguration=id, wanted=list(wanted)):
            return tuple((one, id) for one in wanted)
    return ()


def wanting(desired: DesiredEnds, wanted: WantedSwitch, *, by: str) -> dict[PortSide, DesiredEnd]:
    """The desired ends of a switch after `wanted`.

    A partner that lost its crossconnect by that shall have none.
    """
    after = dict(desired)
    named: dict[PortSide, Crossconnect | None] = dict.fromkeys(wanted.free)
    for one in wanted.crossconnects:
        named |= dict.fromkeys(one.ends, one)
    for end in named:
        before = after.get(end)
        for partner in () if before is None or before.crossconnect is None else before.crossconnect.ends:
            after[partner] = DesiredEnd(crossconnect=None, by=by)
    return after | {end: DesiredEnd(crossconnect=one, by=by) for end, one in named.items()}


def crossconnects_of(desired: DesiredEnds) -> tuple[Crossconnect, ...]:
    """The crossconnects that are wanted."""
    found = {one.crossconnect for one in desired.values() if one.crossconnect is not None}
    return tuple(sorted(found, key=Crossconnect.sort_key))


def free_ends_of(desired: DesiredEnds) -> tuple[PortSide, ...]:
    """The ends that shall have no crossconnect."""
    return tuple(sorted((end for end, one in desired.items() if one.crossconnect is None), key=PortSide.sort_key))


def difference(
    switch: str, desired: DesiredEnds, readings: Sequence[CrossconnectReading], *, but: frozenset[str] = frozenset()
) -> SwitchDifference:
    """How the readings of a switch differ from what is wanted, at all ports but those in `but`, `ocs1.3`."""

    def counts(one: Crossconnect) -> bool:
        return not any(f"{switch}.{end.port}" in but for end in one.ends)

    there = [one.crossconnect for one in readings if counts(one.crossconnect)]
    good = {one.crossconnect for one in readings if one.state is not CrossconnectState.FAILED}
    wanted = crossconnects_of(desired)
    stale = [one for one in there if any(end in desired and desired[end].crossconnect != one for end in one.ends)]
    return SwitchDifference(
        switch=switch,
        missing=tuple(one for one in wanted if one not in good and counts(one)),
        stale=tuple(stale),
        unasked=tuple(one for one in there if not any(end in desired for end in one.ends)),
    )
