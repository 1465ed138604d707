"""Desired state of fibre ends: what the last confirmed reconfiguration of each one wanted, and how a switch differs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from typing_extensions import override

from hwd.model.api_value import ApiValue
from hwd.model.link import Link, SwitchCrossconnect, SwitchEnd
from hwd.model.reconfiguration import ReconfigurationEnded, WantedSwitch
from hwd.model.switch import SwitchAdopted
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState, PortSide, natural_key
from hwd_drivers.switching.moves import SwitchMoves


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredEnd:
    """The desired state of one fibre end: this crossconnect, or none at all where it is None.

    `by`: the reconfiguration that wanted it, or in words where it came from.
    """

    crossconnect: Crossconnect | None
    by: str


DesiredEnds = Mapping[PortSide, DesiredEnd]
"""The desired ends of one switch. An end that no confirmed reconfiguration named is absent: nothing is wanted of it."""


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


def ends_after(desired: DesiredEnds, wanted: WantedSwitch, *, by: str) -> dict[PortSide, DesiredEnd]:
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


class SwitchDesired(ApiValue, frozen=True, kw_only=True):
    """The desired state of one switch by confirmed reconfigurations, and how what the switch reports differs.

    `crossconnects`: those that are wanted; `free`: ends that shall have none; all other ends nobody ever named, and
    nothing is wanted of them. `by`: the reconfiguration that wanted it, by end. `missing`: wanted and not there;
    `stale`: there, at an end of which something else is wanted; `unasked`: there, at ends that nobody ever named.
    All three are None while what the switch carries is unknown, and `unknown` says why. `changing`: ports of
    reconfigurations in progress, at which no difference counts.
    """

    switch: str
    crossconnects: list[Crossconnect]
    free: list[PortSide]
    by: dict[PortSide, str]
    unknown: str | None
    missing: list[Crossconnect] | None
    stale: list[Crossconnect] | None
    unasked: list[Crossconnect] | None
    changing: list[str]

    @property
    def differs(self) -> bool:
        """Whether something is known to differ."""
        return bool(self.missing or self.stale)

    @override
    def __str__(self) -> str:
        if self.unknown is not None:
            return f"{self.switch}: what it carries is unknown: {self.unknown}"
        parts = [f"{one} is missing" for one in self.missing or ()] + [f"{one} is stale" for one in self.stale or ()]
        return f"{self.switch}: {', '.join(parts) or 'as desired'}"


class UnlitLink(ApiValue, frozen=True, kw_only=True):
    """A link that is wanted and that the crossconnects do not make now.

    `missing`: the crossconnects that it lacks, `ocs1:1A-2B`; `instead`: those that have their ends.
    `reconfiguration`: the one under way that took them away; they come back where that is rolled back.
    """

    link: Link
    missing: list[SwitchCrossconnect]
    instead: list[SwitchCrossconnect]
    reconfiguration: str | None = None

    @override
    def __str__(self) -> str:
        if self.reconfiguration is not None:
            return f"taken away by reconfiguration {self.reconfiguration}, which is under way"
        instead = f"; there is {', '.join(self.instead)} instead" if self.instead else ""
        return f"wanted, and {', '.join(self.missing)} {'is' if len(self.missing) == 1 else 'are'} missing{instead}"
