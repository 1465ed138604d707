"""A prepared set as the daemon has it: its states, the plans between its targets, and what is known of its switches."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hwd.model.circuit import RoutedLink
from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.plan import Plan, PlannedLink
from hwd.model.prepared_set import (
    FINISH,
    PreparedSet,
    PreparedSetStatus,
    SetState,
    SetSwitch,
    SetTarget,
    moves_between,
    wanted_at,
)
from hwd.model.reconfiguration import WantedSwitch
from hwd.ports.claim import Claim
from hwd.ports.ledger import Asker, Ledger
from hwd.ports.rules import Reason
from hwd.reconfigure.journal.sets import StoredSet
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, natural_key
from hwd_drivers.devices.facts import SwitchRead


@dataclass(slots=True, kw_only=True)
class LiveSet:
    """A prepared set that has not ended; `PreparedSets` owns it. `routed`: the links of each target with their paths.
    `expected`: seconds that a switch takes, and where that is known from. `read_ns`: when each switch was last read by
    the set.

    `is_settled`: whether it is known that its switches are at the target that the journal says; `why`: why not. It is
    tried again at `settle_after_s`, `loop.time()`.
    `left_open`: the switch of it that could not be brought back or finished yet; `is_cut_off`: the last process of the
    daemon ended in it. `ends_because`: it is over, and released as soon as that can be journaled and no switch of it is
    under way.
    """

    prepared: PreparedSet
    routed: Mapping[str, tuple[RoutedLink, ...]]
    expected: tuple[float, str]
    read_ns: dict[str, int] = field(default_factory=dict)
    is_settled: bool = True
    settle_after_s: float = 0.0
    left_open: str = ""
    is_cut_off: bool = False
    why: str = ""
    ends_because: str = ""
    switching: str | None = None
    """The reconfiguration that switches it now."""
    disturbed: int = 0
    """How often a switch of it may have left its target: it restarted, another client changed it, a switch failed."""
    looked: int = 0
    """As many of these were over when its switches were last known to be at a target."""
    ports: frozenset[str] = field(init=False)
    states: dict[str, SetState] = field(init=False)
    links: tuple[Link, ...] = field(init=False)
    """The links that some target wants, in the order of the targets."""
    _ways: dict[tuple[str, str], tuple[Plan, list[WantedSwitch]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ports = frozenset(self.prepared.ports)
        self.states = {one.name: self.prepared.state(one.name) for one in self.prepared.targets}
        self.links = tuple(dict.fromkeys(one.link for found in self.routed.values() for one in found))

    @property
    def id(self) -> str:
        return self.prepared.id

    @property
    def switches(self) -> tuple[str, ...]:
        return tuple(self.prepared.ends)

    @property
    def claim(self) -> Claim:
        """Its hold on its ports. Until it is settled it does not expire: its rule may have to bring it somewhere."""
        prepared = self.prepared
        return Claim(
            id=prepared.id,
            reason=Reason.PREPARED_SET,
            owner=prepared.holder,
            ports=self.ports,
            run=prepared.run,
            since_wall_ns=prepared.wall_ns,
            expires_wall_ns=prepared.expires_wall_ns if self.is_settled else None,
            switches=frozenset(self.switches),
            what=str(prepared),
        )

    def asker(self, reconfiguration: str, *, epoch: int | None = None) -> Asker:
        """A switch of it, to the ledger."""
        prepared = self.prepared
        return Asker(
            lease=prepared.lease,
            epoch=prepared.lease_epoch if epoch is None else epoch,
            run=prepared.run,
            reconfiguration=reconfiguration,
            prepared_set=prepared.id,
            switches=frozenset(self.switches),
        )

    def lease_in_force(self, ledger: Ledger, now_wall_ns: int) -> Claim | None:
        """The lease that it was prepared under; None where that is over, or is another grant."""
        lease = ledger.get(Reason.LEASE, self.prepared.lease)
        if lease is None or not lease.is_in_force(now_wall_ns) or lease.epoch != self.prepared.lease_epoch:
            return None
        return lease

    def way(self, origin: str, target: str) -> tuple[Plan, Sequence[WantedSwitch]]:
        """The way from one target to another, and what is desired once it is confirmed. Both are made once."""
        found = self._ways.get((origin, target))
        if found is None:
            lit = self.prepared.target(origin)
            plan = self.plan_from(self.states[origin], target, lit=() if lit is None else lit.lit)
            found = self._ways[origin, target] = plan, self.wanted(plan)
        return found

    def wanted(self, plan: Plan) -> list[WantedSwitch]:
        """What is desired once a plan of this set is confirmed."""
        target = None if plan.of_set is None else self.prepared.target(plan.of_set.target)
        assert target is not None
        return wanted_at(target, plan.moves)

    def plan_from(self, state: SetState, target: str, *, lit: Iterable[Link] = ()) -> Plan:
        """The way from any state of its switches. `lit`: the links that have light there."""
        prepared, there = self.prepared, self.prepared.target(target)
        assert there is not None
        moves = moves_between(state, self.states[target])
        added = frozenset(
            SwitchCrossconnect(switch=move.switch, crossconnect=one) for move in moves for one in move.add
        )
        dark = sorted(set(lit) - set(there.lit), key=natural_key)
        expected_s, expected_from = self.expected if added else (0.0, "nothing moves")
        return Plan(
            what=prepared.what(target),
            mode=prepared.mode,
            moves=moves,
            links=tuple(
                PlannedLink(routed=one, kept=one.crossconnects.isdisjoint(added)) for one in self.routed[target]
            ),
            dark=tuple(dark),
            touches=self.ports,
            expected_s=expected_s,
            expected_from=expected_from,
            warnings=(),
            lease=prepared.lease,
            ready_within_s=prepared.ready_within_s,
            confirm_within_s=None,
            lease_epoch=prepared.lease_epoch,
            of_set=SetSwitch(id=prepared.id, target=target, forward=prepared.rule == FINISH),
        )

    def is_changed_by(self, read: SwitchRead) -> bool:
        """Whether another client changed a switch of it at its ends."""
        changed = [] if read.ours else [*read.added, *read.removed]
        ends = frozenset(self.prepared.ends.get(read.switch, ()))
        return any(end in ends for one in changed for end in one.ends)

    def state_from(self, observed: Mapping[str, Iterable[CrossconnectReading]]) -> SetState:
        """What its switches carry at its ends."""
        return {switch: self.prepared.state_of_switch(switch, observed[switch]) for switch in self.switches}

    def target_of(self, state: SetState, *, first: str) -> str | None:
        """The target that has this state, None for none; of several the one that is named, else the first."""
        there = {switch: found for switch, found in state.items() if found}
        same = [name for name, other in self.states.items() if there == {key: one for key, one in other.items() if one}]
        return first if first in same else next(iter(same), None)

    def status(
        self, stored: StoredSet, latest: Mapping[str, Iterable[CrossconnectReading]], *, now_wall_ns: int
    ) -> PreparedSetStatus:
        """The set as its users see it. `stored`: as the journal has it; `latest`: the last reports of its switches."""
        prepared, expires_ns = self.prepared, self.prepared.expires_wall_ns
        is_settled = self.is_settled and not stored.doubt
        left = self.how_it_left(stored.at, latest) if is_settled and self.switching is None else ""
        return PreparedSetStatus(
            prepared_set=self.id,
            lease=prepared.lease,
            holder=prepared.holder,
            rule=prepared.rule,
            at=stored.at if is_settled and not left else None,
            why=stored.doubt
            or self.ends_because
            or left
            or ("" if is_settled else self.why or "its switches are being read"),
            switching=self.switching,
            targets=[
                SetTarget(
                    target=one.name,
                    what=one.what,
                    crossconnects=[
                        SwitchCrossconnect(switch=name, crossconnect=each)
                        for name, found in one.state.items()
                        for each in found
                    ],
                    links=[link.link for link in one.links],
                )
                for one in prepared.targets
            ],
            ports=prepared.ports,
            expires_in_s=None if expires_ns is None else (expires_ns - now_wall_ns) / 1e9,
        )

    def how_it_left(self, at: str, latest: Mapping[str, Iterable[CrossconnectReading]]) -> str:
        """How its switches have left this target, by their last reports; empty where they have not."""
        if self.disturbed == self.looked:
            return ""
        found = []
        for switch in self.switches:
            if (readings := latest.get(switch)) is None:
                continue
            there, wanted = self.prepared.state_of_switch(switch, readings), self.states[at].get(switch, frozenset())
            lacks = [f"lacks {one}" for one in sorted(wanted - there, key=Crossconnect.sort_key)]
            has = [f"has {one} beside" for one in sorted(there - wanted, key=Crossconnect.sort_key)]
            if lacks or has:
                found.append(f"{switch} {', '.join([*lacks, *has])}")
        if not found:
            return ""
        return f"not at {at} any more: {'; '.join(found)}. `hwd switch {self.id} {at}` brings it back"
