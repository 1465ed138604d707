"""One reconfiguration under way: what it is, how far it is, and what was seen of it so far."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from hwd.model.link import Link
from hwd.model.plan import Plan
from hwd.model.testbed import NicPortId
from hwd.reconfigure.interruptions import Absences
from hwd.timeline.clock_step import ClockStep
from hwd.timeline.timeline import Timeline
from hwd_drivers.core.documents import Json


class State(StrEnum):
    """How far it is."""

    PLANNED = "planned"
    """Nothing was sent yet."""
    JOURNALED = "journaled"
    """Durable; the next thing is the first command."""
    DRIVING = "driving"
    """Commands are out."""
    READ_BACK = "read-back"
    """The switches answered; what they report is being compared."""
    DRIVEN = "driven"
    """The switches report what was asked for."""
    WAITING = "waiting"
    """For links to be ready."""
    AWAITING_CONFIRM = "awaiting-confirm"
    """It goes back by itself unless somebody confirms in time."""
    CONFIRMING = "confirming"
    """It stays; what is left is to end the watch and to write it down."""
    ROLLING_BACK = "rolling-back"
    """On the way to the state before it."""
    ENDED = "ended"
    """`outcome` says how."""


class Outcome(StrEnum):
    """How it ended."""

    CONFIRMED = "confirmed"
    """The wanted state stands, was read back and, where asked for, was ready."""
    ROLLED_BACK = "rolled-back"
    """The state before it stands, and was read back."""
    FAILED = "failed"
    """Neither could be reached; the journal keeps it open until the switches can be driven."""


@dataclass(slots=True, kw_only=True)
class Reconfiguration:
    """Owned by the `Reconfigurer`; everybody else only reads it."""

    id: str
    plan: Plan
    run: str | None
    started_ns: int
    read_ns: dict[str, int]
    """When the last read of each switch had ended that it was checked against."""
    ports_of_others: frozenset[str] = frozenset()
    """Where others were at work when it was planned; what they do there is theirs."""
    sweep: Mapping[str, Json] = field(default_factory=dict)
    """What its run swept, with the values in force."""
    settings: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    """What runs have set of the NIC ports at its ends, by port."""
    state: State = State.PLANNED
    outcome: Outcome | None = None
    why: str = ""
    journaled: bool = False
    started: dict[str, Json] = field(default_factory=dict)
    commanded: list[dict[str, Json]] = field(default_factory=list)
    events: list[Mapping[str, Json]] = field(default_factory=list)
    sampled: dict[str, Mapping[str, Json]] = field(default_factory=dict)
    """What the agents say that they sampled, by NIC port."""
    clock_steps: list[tuple[str, ClockStep]] = field(default_factory=list)
    """Of the clocks of its hosts, while it was under way."""
    told: dict[str, tuple[str | None, list[Json]]] = field(default_factory=dict)
    """Which boot of a host's agent watches, and for which peers."""
    observed_late: set[str] = field(default_factory=set)
    """Hosts whose agents did not watch from the start, or not all the time."""
    remarks: list[str] = field(default_factory=list)
    """What was found at read-back beside what was asked for."""
    unanswered_s: dict[str, float] = field(default_factory=dict)
    """Switches whose change was sent and failed, with the time since our last read of them: what it took from other clients nobody has told."""
    absences: Absences = field(default_factory=Absences)
    """Of its switches, while it was under way."""
    timeline: Timeline | None = None
    """When what happened when; there once it has ended, where anything was commanded or seen."""
    ending: asyncio.Task[None] | None = None
    """Confirms it, or rolls it back. There is one, and it is never cancelled: whoever wants the end waits for it."""
    not_back: tuple[str, ...] = ()
    """Switches that could not be brought back."""
    back_since_ns: int | None = None
    """When the way back began; what is seen from then on is not of the reconfiguration."""
    agents_changed: asyncio.Event = field(default_factory=asyncio.Event)
    """An agent was born, came up or was aligned."""
    confirm_by_s: float | None = None
    """`loop.time()` at which it goes back by itself."""
    _ready: set[NicPortId] = field(default_factory=set)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def links(self) -> tuple[Link, ...]:
        return tuple(planned.routed.link for planned in self.plan.links)

    @property
    def ends(self) -> frozenset[NicPortId]:
        return frozenset(end for link in self.links for end in link.ends)

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(sorted({end.host for end in self.ends}))

    @property
    def switches(self) -> frozenset[str]:
        return frozenset(move.switch for move in self.plan.moves)

    @property
    def not_ready(self) -> tuple[Link, ...]:
        return tuple(link for link in self.links if not self._ready.issuperset(link.ends))

    def to_data(self) -> dict[str, Json]:
        """Data of `reconfiguration.started`."""
        return {
            "reconfiguration": self.id,
            "run": self.run,
            "hash": self.plan.hash,
            "what": self.plan.what,
            "sweep": dict(self.sweep),
            "settings": {port: dict(values) for port, values in self.settings.items()},
            "links": [
                {
                    "link": str(planned.routed.link),
                    "kept": planned.kept,
                    "switches": sorted({one.switch for one in planned.routed.crossconnects}),
                    "crossconnects": sorted(map(str, planned.routed.crossconnects)),
                }
                for planned in self.plan.links
            ],
            "moves": [
                {"switch": move.switch, "remove": [*map(str, move.remove)], "add": [*map(str, move.add)]}
                for move in self.plan.moves
            ],
        }

    def see(self, event: Mapping[str, Any]) -> None:
        """Take one `host.event` that concerns an end of one of the links."""
        if self.back_since_ns is not None and event["latest_ns"] >= self.back_since_ns:
            return
        if event["port"] is None:  # of the host as a whole: events that its spool lost
            if any(end.host == event["host"] for end in self.ends):
                self.events.append(event)
            return
        port = NicPortId(host=event["host"], port=event["port"])
        if port not in self.ends:
            return
        self.events.append(event)
        if event.get("past"):  # how it was then: an agent that was born since has told how it is
            return
        match event["type"], event["data"]:
            case "ready", {"reconfiguration": self.id}:
                self._ready.add(port)
                self._changed.set()
            case ("carrier", {"carrier": False}) | ("interface", {"present": False}) | ("rdma", {"active": False}):
                self._ready.discard(port)  # it was, and is not any more; its agent probes again

    def end_by(self, ending: asyncio.Task[None]) -> None:
        """From here on it is being confirmed or rolled back."""
        self.ending = ending
        self._changed.set()

    async def all_ready_or_ending(self) -> None:
        """Return when both ends of every link said that they are ready, or when somebody ends it before."""
        while self.not_ready and self.ending is None and self.state is not State.ENDED:
            self._changed.clear()
            await self._changed.wait()

    def __str__(self) -> str:
        return f"{self.id} ({self.plan.what}) {self.outcome or self.state}"
