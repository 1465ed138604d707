"""Selections: reports a selection (a job that sets its host's own switches) as a reconfiguration with source `local`.

It gets the same documents and the same timeline as a reconfiguration of the daemon.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from msgspec.structs import replace

from hwd.bus.containment import Contain
from hwd.fabric.in_use import InUse
from hwd.fabric.neighbour import state_with_link
from hwd.fabric.state import Carried, State
from hwd.hosts.delegations import Delegations
from hwd.model.circuit import Observed, RoutedLink
from hwd.model.host import HostEvent, HostSelection
from hwd.model.instant import InstantName, Origin
from hwd.model.nic_port import NicPortId
from hwd.model.reconfiguration import (
    ReconfigurationCommanded,
    ReconfigurationEnded,
    ReconfigurationStarted,
    StartedLink,
    StartedMove,
)
from hwd.timeline.build import build_timeline
from hwd.timeline.port_observation import state_of
from hwd_agents.wire import Selected, SwitchSet
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document, Sink
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.structs import to_plain
from hwd_drivers.core.values import Crossconnect

GATHER_S: Final = 2.0
"""The time to wait after the event of a selection: by then the events of the hosts at the far ends have come."""
EVENTS_MOST: Final = 4000
"""The most recent port events of all hosts."""
MOVES_MOST: Final = 64
"""The most recent states of each switch of a host."""
GRACE_NS: Final = 1_000_000
"""Events that ended this long before the request of a selection still belong to it: stamps have an alignment error."""
LOCAL: Final = "local"
UNKNOWN: Final = "unknown"
"""The outcome of a selection during which the agent was killed: its instants are unknown, so it has no timeline."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Move:
    """A switch of a host was set: when it was commanded (None: it was set so already) and when it had what it carries.

    `carries` is None where its state was unknown afterwards.
    """

    commanded_ns: int | None
    set_ns: int
    carries: frozenset[Crossconnect] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Local:
    """One selection, its times on the daemon's clock."""

    host: str
    done: Selected
    what: str
    requested_ns: int
    answered_ns: int
    error_ns: int
    stamps: Mapping[str, Mapping[str, int | None]]
    epochs: Mapping[str, int]
    remarks: str


class Selections:
    """A `Sink`.

    Emits `host.selection` at once. After `GATHER_S`, when the events of the other ends have come, it emits
    `reconfiguration.started`, `.commanded`, `.ended` and `timeline`; no timeline where the agent was killed meanwhile.

    `observed`: the last reported state of all switches, those of hosts too.
    """

    TAKES: ClassVar = (HostEvent,)

    def __init__(
        self,
        in_use: InUse,
        delegations: Delegations,
        *,
        observed: Callable[[], Observed],
        origins: Mapping[str, Origin],
        clock: Clock,
        sink: Sink,
        contain: Contain,
    ) -> None:
        self._contain = contain
        self._in_use = in_use
        self._delegations = delegations
        self._observed = observed
        self._origins = origins
        self._emit = Emitter(clock, sink)
        self._owned = frozenset(name for name, switch in in_use.testbed.switches.items() if switch.owner is not None)
        self._events: deque[HostEvent] = deque(maxlen=EVENTS_MOST)
        self._moves: dict[str, deque[_Move]] = {}
        self._waiting: deque[tuple[float, _Local]] = deque()
        self._came = asyncio.Event()

    def __call__(self, document: Document) -> None:
        event = document.fact
        if not isinstance(event, HostEvent):
            return
        if event.port is not None:
            self._events.append(event)
        elif event.type == "selection" and (local := self._local(event)) is not None:
            self._remember(local)
            self._emit_selection(local, boot=event.boot)
            if local.done.outcome == UNKNOWN:
                self._emit(self._started(local, self._links(local)))
                self._emit_end(local)
                return
            self._waiting.append((asyncio.get_running_loop().time() + GATHER_S, local))
            self._came.set()

    async def run(self) -> None:
        """Emit the documents of each selection after `GATHER_S`, until cancelled; then those of all that still wait."""
        try:
            while True:
                while self._waiting:
                    due_s, local = self._waiting[0]
                    await asyncio.sleep(max(0.0, due_s - asyncio.get_running_loop().time()))
                    self._waiting.popleft()
                    with self._contain(local.host, "its selections"):
                        self._emit_reconfiguration(local)
                self._came.clear()
                await self._came.wait()
        finally:
            for _, local in self._waiting:
                with self._contain(local.host, "its selections"):
                    self._emit_reconfiguration(local)

    def resume(self, selections: Iterable[HostEvent], events: Iterable[HostEvent]) -> None:
        """Continue with selections that came before a restart of the daemon and whose documents are missing.

        `selections` are events of selections, `events` those of ports.
        """
        self._events.extend(event for event in events if event.port is not None)
        now_s = asyncio.get_running_loop().time()
        for event in selections:
            with self._contain(event.host, "its selections"):
                if (local := self._local(event)) is not None:
                    self._remember(local)
                    self._waiting.append((now_s + GATHER_S, local))
        self._came.set()

    # --- from the event to the selection

    def _local(self, event: HostEvent) -> _Local | None:
        host, done, stamps = event.host, event.data, event.stamps
        if not isinstance(done, Selected) or not stamps:
            log.warning("%s: tells of a selection that cannot be read: %s", host, done)
            return None
        if strange := [name for name in done.switches if not self._is_of(name, host)]:
            log.warning("%s: tells of a selection of %s, which it does not own", host, ", ".join(strange))
            return None
        return _Local(
            host=host,
            done=done,
            what=f"{host} set {' '.join(f'{name}:{_words(one)}' for name, one in done.switches.items())}",
            requested_ns=stamps["requested_ns"],
            answered_ns=stamps["answered_ns"],
            error_ns=stamps["error_ns"],
            stamps=stamps["switches"],
            epochs={name: one.epoch for name, one in done.switches.items()},
            remarks=self._old_epochs(done),
        )

    def _is_of(self, switch: str, host: str) -> bool:
        return switch in self._owned and self._in_use.testbed.switches[switch].owner == host

    def _old_epochs(self, done: Selected) -> str:
        """A remark on switches that were set under an epoch which is not in force now."""
        old = []
        for name, one in done.switches.items():
            lease = self._delegations.get(name)
            if lease is not None and lease.epoch != one.epoch:
                old.append(f"{name} was set under epoch {one.epoch}, and {lease.epoch} is in force")
        return "; ".join(old)

    def _remember(self, local: _Local) -> None:
        for name, one in local.done.switches.items():
            stamps = local.stamps[name]
            before = _Move(commanded_ns=None, set_ns=0, carries=frozenset(_crossconnects(one.before)))
            self._moves.setdefault(name, deque([before], maxlen=MOVES_MOST)).append(
                _Move(
                    commanded_ns=stamps["commanded_ns"],
                    set_ns=stamps["acknowledged_ns"] or local.answered_ns,
                    carries=None if one.now is None else frozenset(_crossconnects(one.now)),
                )
            )

    # --- documents

    def _emit_selection(self, local: _Local, *, boot: str) -> None:
        done = local.done
        switches: dict[str, dict[str, Any]] = {}
        for name, one in done.switches.items():
            lease = self._delegations.get(name)
            switches[name] = {
                **to_plain(one),
                **local.stamps[name],
                "epoch_in_force": None if lease is None else lease.epoch,
            }
        self._emit(
            HostSelection(
                host=local.host,
                boot=boot,
                selection=done.selection,
                outcome=done.outcome,
                why=done.why,
                seconds=(done.answered_ns - done.requested_ns) / 1e9,
                requested_ns=local.requested_ns,
                answered_ns=local.answered_ns,
                error_ns=local.error_ns,
                switches=switches,
                ports=to_plain(done.ports),
            )
        )

    def _emit_reconfiguration(self, local: _Local) -> None:
        done = local.done
        routed = self._links(local)
        started = self._started(local, routed)
        commanded = [
            ReconfigurationCommanded(
                reconfiguration=done.selection,
                switch=name,
                commanded_ns=local.stamps[name]["commanded_ns"],
                acknowledged_ns=local.stamps[name]["acknowledged_ns"],
                commands=one.commands,
                error_ns=local.error_ns,
                source=f"host {local.host}",
            )
            for name, one in done.switches.items()
            if one.commanded_ns is not None
        ]
        self._emit(started)
        for fact in commanded:
            self._emit(fact)
        timeline = build_timeline(
            started=started,
            commanded=commanded,
            events=self._events_of(local, routed),
            sampled={},
            switch_origins=self._origins,
        )
        self._emit(replace(timeline, source=LOCAL, host=local.host))
        self._emit_end(local)

    def _emit_end(self, local: _Local) -> None:
        done = local.done
        outcome = "confirmed" if done.outcome == "up" else "failed"
        why = "; ".join(filter(None, [done.why, local.remarks]))
        seconds = (done.answered_ns - done.requested_ns) / 1e9
        self._emit(
            ReconfigurationEnded(
                reconfiguration=done.selection,
                run=None,
                outcome=outcome,
                why=why,
                seconds=seconds,
                source=LOCAL,
                host=local.host,
            )
        )

    def _started(self, local: _Local, routed: Iterable[RoutedLink]) -> ReconfigurationStarted:
        done = local.done
        moved = {
            name
            for name, one in done.switches.items()
            if one.commanded_ns is not None or (done.outcome == UNKNOWN and (one.removed or one.added))
        }
        return ReconfigurationStarted(
            reconfiguration=done.selection,
            run=None,
            hash="",
            what=local.what,
            links=[
                StartedLink.of(
                    one.link,
                    one.crossconnects,
                    kept=not moved.intersection(used.switch for used in one.crossconnects),
                )
                for one in routed
            ],
            moves=[
                StartedMove(switch=name, remove=_crossconnects(one.removed), add=_crossconnects(one.added))
                for name, one in done.switches.items()
            ],
            source=LOCAL,
            host=local.host,
            epochs=dict(local.epochs),
        )

    def _links(self, local: _Local) -> list[RoutedLink]:
        """The links of its ports in the state when it was answered.

        A port that came up has a link, even where the far end has not reported its state yet.
        """
        mine = {NicPortId(host=local.host, port=port): one.up for port, one in local.done.ports.items()}
        state = self._state_at(local.answered_ns + local.error_ns)
        others = frozenset(name for name in self._owned if not self._is_of(name, local.host))
        linked = {end for one in self._in_use.fabric.links_of(state) for end in one.ends}
        for port, up in mine.items():
            if up and port not in linked:
                state = state_with_link(self._in_use.fabric, port, state, others)
        return [one for one in self._in_use.fabric.routed_of(state) if not mine.keys().isdisjoint(one.link.ends)]

    def _state_at(self, at_ns: int) -> State:
        """The state of all switches at `at_ns`: those of hosts by their selections, the others as they are now."""
        state: dict[str, Carried] = {
            name: tuple(one.crossconnect for one in readings) for name, readings in self._observed().items()
        }
        for name, moves in self._moves.items():
            earlier = [move.carries for move in moves if move.set_ns <= at_ns and move.carries is not None]
            if earlier:
                state[name] = earlier[-1]
        return state

    def _events_of(self, local: _Local, routed: Iterable[RoutedLink]) -> list[HostEvent]:
        """The port events of this selection, none of the next one.

        A state that was down at the answer is followed to its first rise, and one that was up is not followed further:
        the next selection of either host takes the link down again, and is reported only when it has ended. Where the
        clocks of two hosts leave open which came first, a first rise is of this selection and a second change is not.
        """
        until_ns = min((local.answered_ns + round(GATHER_S * 1e9), *self._taken_away_ns(local, routed)))
        up: dict[tuple[str, str, str, InstantName], bool] = {}
        events = []
        for event in sorted(self._events, key=lambda event: (event.latest_ns, event.host, event.seq)):
            if event.latest_ns < local.requested_ns - GRACE_NS or event.earliest_ns > until_ns:
                continue
            if event.port is not None and (state := state_of(event)) is not None:
                key = (event.host, event.port, event.source, state[0])
                if event.latest_ns >= local.answered_ns and up.get(key):
                    continue
                up[key] = state[1]
            events.append(event)
        return events

    def _taken_away_ns(self, local: _Local, routed: Iterable[RoutedLink]) -> Iterator[int]:
        """When switches of hosts were commanded, after the answer, to something without these links."""
        for used in (one for link in routed for one in link.crossconnects):
            for move in self._moves.get(used.switch, ()):
                there = move.carries is not None and used.crossconnect in move.carries
                if move.commanded_ns is not None and move.commanded_ns > local.answered_ns and not there:
                    yield move.commanded_ns


def _words(one: SwitchSet) -> str:
    return ",".join(one.wanted) or "dark"


def _crossconnects(texts: Iterable[str]) -> list[Crossconnect]:
    found = []
    for text in texts:
        try:
            found.append(Crossconnect.parse(text))
        except ConfigError as error:
            log.warning("a selection tells of %r: %s", text, error)
    return found
