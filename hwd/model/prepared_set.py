"""Prepared sets: targets that were routed, checked and journaled once, and are then switched to by name. Values only.

A target is the state that the switches had at the preparation, with what it asks for: at the fibre ends of the set, and
nowhere else. So the moves between two targets are the difference of two sets of crossconnects, and need no plan.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from msgspec import UNSET, Struct, UnsetType
from typing_extensions import override

from hwd.model.api_value import ApiValue
from hwd.model.desired_state import wanted_of
from hwd.model.interlock import Interlock
from hwd.model.link import Link, SwitchCrossconnect, SwitchEnd
from hwd.model.reconfiguration import StartedLink, WantedSwitch
from hwd_drivers.core.documents import Fact
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState, PortSide
from hwd_drivers.switching.moves import ApplyMode, SwitchMoves

BEFORE: Final = "before"
"""The name of the target that every set has: what the switches carried at the preparation."""
FINISH: Final = "finish"
"""The rule by which a switch that a crash cut off is finished. Every other rule is the name of a target."""
TARGETS_MOST: Final = 64
"""Targets of one set. Its moves are worked out when they are first needed: at most 64 times 64 pairs of targets."""

SetState = Mapping[str, frozenset[Crossconnect]]
"""What the switches of a set carry at its ends, by switch."""


class PreparedLink(Struct, frozen=True, kw_only=True):
    """A link that a target wants, with the crossconnects that make it, `ocs1:1A-2B`."""

    link: Link
    crossconnects: list[SwitchCrossconnect]

    def started(self, added: frozenset[str]) -> StartedLink:
        """The link as the first document of a reconfiguration has it. `added`: the crossconnects that this makes."""
        return StartedLink.of(self.link, self.crossconnects, kept=added.isdisjoint(self.crossconnects))


class PreparedTarget(Struct, frozen=True, kw_only=True):
    """One wanted state. `state`: all that each switch carries at the ends of the set, such as `1A-2B`.

    `what`: what was asked for, in words. `free`: ends that it wants to have no crossconnect, by switch. `links`: those
    that it wants; `lit`: all that have light through the set's ends then.
    """

    name: str
    what: str
    state: dict[str, list[Crossconnect]]
    free: dict[str, list[PortSide]]
    links: list[PreparedLink]
    lit: list[Link]


class PreparedSet(Struct, frozen=True, kw_only=True):
    """A set, as the journal has it. `targets`: `before` is the first of them.

    `lease`: the one that it is held under, with its epoch and holder; the set ends with it, or at `expires_wall_ns`.
    `rule`: what becomes of a switch that a crash cuts off: `finish`, or the name of the target to go to. `ends`: the
    fibre ends that it may change, by switch; `ports`: all ports whose light it may change or relies on.
    """

    id: str
    lease: str
    lease_epoch: int | None
    holder: str
    run: str | None
    rule: str
    mode: ApplyMode
    ready_within_s: float | None
    targets: list[PreparedTarget]
    ends: dict[str, list[PortSide]]
    ports: list[str]
    wall_ns: int
    expires_wall_ns: int | None
    by: str = ""
    verified: bool = False

    @override
    def __str__(self) -> str:
        return f"{self.id}: {', '.join(one.name for one in self.targets)}; after a crash {self.rule}"

    def target(self, name: str) -> PreparedTarget | None:
        return next((one for one in self.targets if one.name == name), None)

    def state(self, name: str) -> SetState:
        """What the switches carry at a target; raises KeyError where there is none."""
        if (target := self.target(name)) is None:
            raise KeyError(name)
        return {switch: frozenset(one) for switch, one in target.state.items()}

    def state_of_switch(self, switch: str, readings: Iterable[CrossconnectReading]) -> frozenset[Crossconnect]:
        """What a switch carries at the ends of the set; a failed crossconnect is not there."""
        ends = frozenset(self.ends[switch])
        return frozenset(
            one.crossconnect
            for one in readings
            if one.state is not CrossconnectState.FAILED and not ends.isdisjoint(one.crossconnect.ends)
        )

    def what(self, target: str) -> str:
        return f"prepared set {self.id} to {target}"


class SetSwitch(Struct, frozen=True, kw_only=True):
    """Which target of which set a reconfiguration goes to. `forward`: after a crash it is finished, not rolled back."""

    id: str
    target: str
    forward: bool = False


def moves_between(now: SetState, then: SetState) -> tuple[SwitchMoves, ...]:
    """The moves from one state of a set to another, for each switch in the order of its names."""
    found = []
    for switch in sorted(now.keys() | then.keys()):
        before, after = now.get(switch, frozenset()), then.get(switch, frozenset())
        found.append(
            SwitchMoves(
                switch=switch,
                remove=_in_order(before - after),
                add=_in_order(after - before),
                keep=_in_order(before & after),
                before=_in_order(before),
            )
        )
    return tuple(found)


def wanted_at(target: PreparedTarget, moves: Iterable[SwitchMoves]) -> list[WantedSwitch]:
    """What is desired once the moves to a target are confirmed."""
    freed = [SwitchEnd(switch=name, end=end) for name, ends in target.free.items() for end in ends]
    return wanted_of(moves, freed)


def added_by(moves: Iterable[SwitchMoves]) -> frozenset[str]:
    """The crossconnects that moves make, `ocs1:1A-2B`."""
    return frozenset(f"{move.switch}:{one}" for move in moves for one in move.add)


def _in_order(crossconnects: Iterable[Crossconnect]) -> tuple[Crossconnect, ...]:
    return tuple(sorted(crossconnects, key=Crossconnect.sort_key))


class SetFact(Fact, frozen=True, kw_only=True):
    """A fact of one prepared set; `prepared_set` is its id."""

    prepared_set: str


class SetPrepared(SetFact, frozen=True, kw_only=True):
    """A set is durable, and holds its ports under `lease`. `rule`: what becomes of a switch that a crash cuts off.
    `overridden`: interlocks that somebody overrode for a target, with the reason.
    """

    KIND: ClassVar = "set.prepared"
    lease: str
    holder: str
    targets: list[str]
    rule: str
    overridden: list[Interlock] | UnsetType = UNSET
    ports: list[str]
    expires_wall_ns: int | UnsetType = UNSET
    by: str | UnsetType = UNSET
    verified: bool | UnsetType = UNSET


class SetSettled(SetFact, frozen=True, kw_only=True):
    """A start of the daemon has read the switches of a set, and knows its target. `why`: how it came there."""

    KIND: ClassVar = "set.settled"
    target: str
    why: str


class SetReleased(SetFact, frozen=True, kw_only=True):
    """A set ended: its ports are free, and its switches stay as they are. `at`: the target that they had last. `why`:
    released, or what ended it without its holder, such as the end of its lease and how that came.
    """

    KIND: ClassVar = "set.released"
    at: str
    why: str
    lease: str
    holder: str


class SetTarget(ApiValue, frozen=True, kw_only=True):
    """One target of a set: what was asked for, all that its switches carry then at the set's ends, and its links."""

    target: str
    what: str
    crossconnects: list[SwitchCrossconnect]
    links: list[Link]

    @property
    def id(self) -> str:
        return self.target


class PreparedSetStatus(ApiValue, frozen=True, kw_only=True):
    """A prepared set that has not ended. `targets`: `before`, which every set has, is the first.

    `at`: the target that its switches have; None while a restart has not found that yet, or where they have left it by
    their last reports, and `why` says what is in the way, what differs, or why it ends. `switching`: the
    reconfiguration that switches it now. `rule`: what becomes of a switch that a crash cuts off: `finish`, or the
    target to go to. `expires_in_s`: None where it lasts as long as its lease.
    """

    prepared_set: str
    lease: str
    holder: str
    rule: str
    at: str | None
    why: str
    switching: str | None
    targets: list[SetTarget]
    ports: list[str]
    expires_in_s: float | None

    @property
    def id(self) -> str:
        return self.prepared_set

    @override
    def __str__(self) -> str:
        names = ", ".join(one.target for one in self.targets)
        why = f" ({self.why})" if self.why else ""
        return f"set {self.id} of {self.holder}: {names}; at {self.at or 'no known target'}{why}"


class EndedSet(ApiValue, frozen=True, kw_only=True):
    """A prepared set that is over. `at`: the target that its switches had last."""

    prepared_set: str
    lease: str
    holder: str
    at: str
    why: str
    ended_wall_ns: int

    @override
    def __str__(self) -> str:
        return f"set {self.prepared_set} of {self.holder} is over: {self.why}; its last target was {self.at}"
