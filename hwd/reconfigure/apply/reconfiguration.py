"""One reconfiguration: its plan, its state and outcome, and everything that was seen of it."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from msgspec import UNSET, structs

from hwd.model.hang import Hang
from hwd.model.host import ClockStepped, HostEvent
from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.plan import Plan
from hwd.model.plural import plural
from hwd.model.reconfiguration import (
    ReconfigurationCommanded,
    ReconfigurationStarted,
    ReconfigurationState,
    StartedMove,
    WantedSwitch,
)
from hwd.model.request import Caller
from hwd.model.timeline import Timeline
from hwd.reconfigure.desired.desired_state import Leftovers
from hwd_agents.wire import Observation, Peer
from hwd_agents.wire.events import CarrierData, InterfaceData, RdmaData, ReadyData
from hwd_drivers.core import emitter
from hwd_drivers.core.documents import Json
from hwd_drivers.core.values import natural_key


class State(StrEnum):
    """The steps of a reconfiguration."""

    PLANNED = "planned"
    """No command was sent yet."""
    JOURNALED = "journaled"
    """The plan is durable, and the first command is next."""
    DRIVING = "driving"
    """Commands are sent."""
    READ_BACK = "read-back"
    """The switches answered; what they report is being compared."""
    DRIVEN = "driven"
    """The switches report what was asked for."""
    WAITING = "waiting"
    """The reconfiguration waits for its links to be ready."""
    AWAITING_CONFIRM = "awaiting-confirm"
    """The reconfiguration is rolled back unless somebody confirms it in time."""
    CONFIRMING = "confirming"
    """The reconfiguration is confirmed as soon as the agents' watch has ended and the journal has it."""
    ROLLING_BACK = "rolling-back"
    """The switches are brought back to the state before it."""
    ENDED = "ended"
    """`outcome` says how."""


class Outcome(StrEnum):
    """The ends of a reconfiguration."""

    CONFIRMED = "confirmed"
    """The switches have the wanted state; it was read back and, where asked for, the links were ready."""
    ROLLED_BACK = "rolled-back"
    """The switches have the state before it, and that was read back."""
    FAILED = "failed"
    """The switches have neither; the journal keeps it open until they can be driven."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """A time in which a switch could not be reached, on the daemon's clock; `until_ns` is None while it lasts."""

    switch: str
    cause: str
    from_ns: int
    until_ns: int | None = None

    def text(self, *, zero_ns: int) -> str:
        """One line of text; its times count from `zero_ns`."""
        since_s = (self.from_ns - zero_ns) / 1e9
        if self.until_ns is None:
            return f"{self.switch} is away since {since_s:.3f} s after the start ({self.cause})"
        until_s = (self.until_ns - zero_ns) / 1e9
        return f"{self.switch} was away from {since_s:.3f} to {until_s:.3f} s after the start ({self.cause})"


class Absences:
    """The absences of the switches of one reconfiguration, in the order in which they began."""

    def __init__(self) -> None:
        self._absences: list[Absence] = []

    def down(self, switch: str, cause: str, *, at_ns: int) -> None:
        """A switch cannot be reached. Of several reports of one absence the first counts."""
        if not any(one.switch == switch and one.until_ns is None for one in self._absences):
            self._absences.append(Absence(switch=switch, cause=cause, from_ns=at_ns))

    def up(self, switch: str, *, at_ns: int) -> None:
        """A switch can be reached again."""
        self._absences = [
            replace(one, until_ns=at_ns) if one.switch == switch and one.until_ns is None else one
            for one in self._absences
        ]

    def over(self) -> tuple[Absence, ...]:
        """The absences that have ended."""
        return tuple(one for one in self._absences if one.until_ns is not None)


@dataclass(slots=True, kw_only=True)
class Reconfiguration:
    """The `Reconfigurer` owns it; everybody else only reads it. What follows from its plan is computed once."""

    id: str
    plan: Plan
    run: str | None
    started_ns: int
    read_ns: dict[str, int]
    """When the last read of each switch before its change had ended."""
    ports_of_others: frozenset[str] = frozenset()
    """Ports of other reconfigurations at the time of the plan: changes there are not for this one to judge."""
    sweep: Mapping[str, Json] = field(default_factory=dict)
    """The sweep of its run: the present value of each parameter."""
    settings: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    """Settings that runs have made on the NIC ports at its ends, by port."""
    lease_holder: str | None = None
    """Who holds the lease of its plan; None without one."""
    caller: Caller | None = None
    """Who asked for it; None where nobody said."""
    override: str = ""
    """Whose right the caller overrode for it, and why."""
    lease_epoch: int | None = None
    """The epoch of the lease of the plan; None without one."""
    asked_ns: int | None = None
    """When a switch of a prepared set was asked for; None for any other."""
    state: State = State.PLANNED
    outcome: Outcome | None = None
    why: str = ""
    journaled: bool = False
    resumed: bool = False
    """The reconfiguration was taken over from an earlier process of the daemon: what that saw of it is in the records
    alone.
    """
    commanded: list[ReconfigurationCommanded] = field(default_factory=list)
    events: list[HostEvent] = field(default_factory=list)
    sampled: dict[str, Mapping[str, Observation]] = field(default_factory=dict)
    """How the agents sampled, by NIC port."""
    clock_steps: list[ClockStepped] = field(default_factory=list)
    """Steps of the clocks of its hosts while it was under way."""
    watched_by: dict[str, tuple[str | None, list[Peer]]] = field(default_factory=dict)
    """By host: the boot of the agent that watches, and the peers that it probes."""
    observed_late: set[str] = field(default_factory=set)
    """Hosts whose agents did not watch from start to end."""
    step: int = 0
    """The last step of its plan that was begun; 0 for none, and where the plan has no order."""
    awaited: frozenset[Link] | None = None
    """Links that are to be ready now, as later steps make the others; None for all."""
    wanted: Sequence[WantedSwitch] = ()
    """The desired state once it is confirmed."""
    remarks: list[str] = field(default_factory=list)
    """Findings of the read-back that are no failures."""
    leftovers: Leftovers = field(default_factory=Leftovers)
    """What its switches carry beside what is desired, once it is confirmed."""
    unanswered_s: dict[str, float] = field(default_factory=dict)
    """Switches whose change was sent and failed, with the seconds since our last read.

    What such a change took from other clients is unknown.
    """
    hangs: tuple[Hang, ...] = ()
    """Where its links hung that were not ready in time, as far as that was known."""
    absences: Absences = field(default_factory=Absences)
    """When its switches could not be reached."""
    timeline: Timeline | None = None
    """Set at the end, if a command was sent or an event was seen."""
    ending: asyncio.Task[None] | None = None
    """The one task that confirms it or rolls it back. It is never cancelled."""
    not_back: tuple[str, ...] = ()
    """Switches that the roll-back could not bring back."""
    back_since_ns: int | None = None
    """When the roll-back began; later events do not belong to the reconfiguration."""
    agents_changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when an agent connects or its clock is aligned."""
    confirm_by_s: float | None = None
    """`loop.time()` at which it is rolled back without a confirm."""
    links: tuple[Link, ...] = field(init=False)
    ends: frozenset[NicPortId] = field(init=False)
    hosts: tuple[str, ...] = field(init=False)
    switches: frozenset[str] = field(init=False)
    started: ReconfigurationStarted = field(init=False)
    """What its first document says."""
    _ready: set[NicPortId] = field(default_factory=set)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.links = tuple(planned.routed.link for planned in self.plan.links)
        self.ends = frozenset(end for link in self.links for end in link.ends)
        self.hosts = tuple(sorted({end.host for end in self.ends}, key=natural_key))
        step_of = self.plan.step_of
        self.switches = frozenset(move.switch for move in self.plan.moves)
        self.started = ReconfigurationStarted(
            reconfiguration=self.id,
            run=self.run,
            hash=self.plan.hash,
            what=self.plan.what,
            sweep=dict(self.sweep),
            settings={port: dict(values) for port, values in self.settings.items()},
            links=[
                structs.replace(one.started, step=step_of.get(one.routed.link, UNSET)) if step_of else one.started
                for one in self.plan.links
            ],
            dark_at_once=UNSET if self.plan.order is None else self.plan.order.dark_at_once,
            moves=[
                StartedMove(
                    switch=move.switch,
                    remove=[*move.remove],
                    add=[*move.add],
                    lasting=[*move.lasting] or UNSET,
                )
                for move in self.plan.moves
            ],
            lease=self.plan.lease,
            holder=UNSET if self.lease_holder is None else self.lease_holder,
            lease_epoch=UNSET if self.lease_epoch is None else self.lease_epoch,
            overridden=[*self.plan.overridden] or UNSET,
            by=UNSET if self.caller is None else self.caller.name,
            verified=UNSET if self.caller is None else self.caller.is_verified,
            prepared_set=UNSET if self.plan.of_set is None else self.plan.of_set.id,
            target=UNSET if self.plan.of_set is None else self.plan.of_set.target,
            override_of=self.override or UNSET,
        )

    @property
    def is_watched(self) -> bool:
        """Whether agents watch for it: for a switch of a prepared set only where it waits for ready links."""
        return bool(self.hosts) and (self.plan.of_set is None or self.plan.ready_within_s is not None)

    @property
    def not_ready(self) -> tuple[Link, ...]:
        awaited = self.links if self.awaited is None else [link for link in self.links if link in self.awaited]
        return tuple(link for link in awaited if not self._ready.issuperset(link.ends))

    @property
    def ready(self) -> frozenset[NicPortId]:
        """Ends whose own transfers succeeded."""
        return frozenset(self._ready)

    def left_text(self, *, now_ns: int, now_s: float) -> str:
        """How long it still lasts, for who waits for it; `now_s` is `loop.time()`."""
        match self.state:
            case State.AWAITING_CONFIRM if self.confirm_by_s is not None:
                left_s = max(0.0, self.confirm_by_s - now_s)
                return f"it goes back by itself in {left_s:.0f} s unless it is confirmed before"
            case State.CONFIRMING | State.ROLLING_BACK | State.ENDED:
                return "it is about to end, which takes some seconds at most"
        plan = self.plan
        left_s = plan.expected_s - (now_ns - self.started_ns) / 1e9
        text = f"about another {left_s:.1f} s" if left_s > 0 else f"longer than the {plan.expected_s:.1f} s expected"
        if plan.ready_within_s is not None:
            text += f", for its links have {plan.ready_within_s:g} s to be ready"
        if plan.confirm_within_s is not None:
            text += f", and then {plan.confirm_within_s:g} s at most until it is confirmed or goes back"
        return text

    @property
    def steps_text(self) -> str:
        """Which of its steps were begun, as text; empty where its plan has no order of several steps."""
        count = 0 if self.plan.order is None else len(self.plan.order.steps)
        if count < 2 or not self.step:
            return ""
        if self.step == count:
            return f"all of its {plural(count, 'step')} had begun"
        begun = "step 1" if self.step == 1 else f"steps 1 to {self.step}"
        return f"{begun} of {count} had begun, the others not"

    def assume_ready(self) -> None:
        """Count all ends as ready: an earlier process of the daemon has seen that."""
        self._ready.update(self.ends)

    def see(self, event: HostEvent) -> None:
        """Take one event at an end of its links."""
        if self.back_since_ns is not None and event.latest_ns >= self.back_since_ns:
            return
        if event.port is None:  # the host's spool lost events
            if any(end.host == event.host for end in self.ends):
                self.events.append(event)
            return
        port = NicPortId(host=event.host, port=event.port)
        if port not in self.ends:
            return
        self.events.append(event)
        if event.past:  # the agent's present state came with its birth
            return
        match event.data:
            case ReadyData(reconfiguration=self.id):
                self._ready.add(port)
                self._changed.set()
            case CarrierData(carrier=False) | InterfaceData(present=False) | RdmaData(active=False):
                self._ready.discard(port)  # its agent probes again

    def end_by(self, ending: asyncio.Task[None]) -> None:
        """`ending` confirms it or rolls it back from here on."""
        self.ending = ending
        self._changed.set()

    async def all_ready_or_ending(self) -> None:
        """Return when both ends of every link are ready, or when somebody ends it before."""
        while self.not_ready and self.ending is None and self.state is not State.ENDED:
            self._changed.clear()
            await self._changed.wait()

    def __str__(self) -> str:
        return f"{self.id} ({self.plan.what}) {self.outcome or self.state}"


class Emitter(emitter.Emitter):
    """Emits the documents of reconfigurations, with the time of the daemon's clock."""

    def change_state(self, reconfiguration: Reconfiguration, state: State) -> None:
        """Set the state and emit it."""
        reconfiguration.state = state
        self(ReconfigurationState(reconfiguration=reconfiguration.id, state=state))
