"""Selections that hosts made of their own switches, as reconfigurations: with documents and a timeline as those of the
daemon have, source `local`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import msgspec

from hwd.bus.containment import Contain
from hwd.bus.host_switches.delegations import Delegations
from hwd.fabric.fabric import Fabric
from hwd.fabric.neighbour import state_with_link
from hwd.model.instant import Origin
from hwd.model.link import RoutedLink
from hwd.model.state import Observed
from hwd.model.testbed import NicPortId, Testbed
from hwd.timeline.build import build_timeline
from hwd_agents.wire import Selected, SwitchSet
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document, Json, Sink
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.values import Crossconnect

GATHER_S: Final = 2.0
"""After a selection was told, what the hosts at the far ends of its links saw has come by then, where they are there.
"""
EVENTS_KEPT: Final = 4000
"""Of all hosts: what they saw of their ports lately."""
MOVES_KEPT: Final = 64
"""Of each switch of a host: where it stood when."""
GRACE_NS: Final = 1_000_000
"""Events that ended this long before a selection was asked for still belong to it: stamps carry an alignment error."""
LOCAL: Final = "local"
UNKNOWN: Final = "unknown"
"""The outcome of a selection whose agent was killed in the middle: no instant of it is known, so it has no timeline."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Local:
    """One selection, its times on our clock."""

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

    At once: `host.selection`. Once the other ends were heard: `reconfiguration.started`, `.commanded`, `.ended` and
    `timeline`; the last is not there where the host's agent was killed in the middle.

    `observed`: what all switches reported last, those of hosts too.
    """

    TAKES: ClassVar = ("host.event",)

    def __init__(
        self,
        testbed: Testbed,
        fabric: Fabric,
        delegations: Delegations,
        *,
        observed: Callable[[], Observed],
        origins: Mapping[str, Origin],
        clock: Clock,
        sink: Sink,
        contain: Contain,
    ) -> None:
        self._contain = contain
        self._testbed = testbed
        self._fabric = fabric
        self._delegations = delegations
        self._observed = observed
        self._origins = origins
        self._clock = clock
        self._sink = sink
        self._owned = frozenset(name for name, switch in testbed.switches.items() if switch.owner is not None)
        self._events: deque[Mapping[str, Any]] = deque(maxlen=EVENTS_KEPT)
        self._moves: dict[str, deque[tuple[int, frozenset[Crossconnect]]]] = {}
        self._waiting: deque[tuple[float, _Local]] = deque()
        self._came = asyncio.Event()

    def __call__(self, document: Document) -> None:
        data: Mapping[str, Any] = document.data
        if not self._owned:
            return
        if data["port"] is not None:
            self._events.append(data)
        elif data["type"] == "selection" and (local := self._local(data)) is not None:
            self._remember(local)
            self._tell_at_once(local, boot=str(data["boot"]))
            if local.done.outcome == UNKNOWN:
                self._tell_unknown(local)
                return
            self._waiting.append((asyncio.get_running_loop().time() + GATHER_S, local))
            self._came.set()

    async def run(self) -> None:
        """Tell of each selection when its time has come, until cancelled; then of those that still wait."""
        try:
            while True:
                while self._waiting:
                    due_s, local = self._waiting[0]
                    await asyncio.sleep(max(0.0, due_s - asyncio.get_running_loop().time()))
                    self._waiting.popleft()
                    with self._contain(local.host, "its selections"):
                        self._tell(local)
                self._came.clear()
                await self._came.wait()
        finally:
            for _, local in self._waiting:
                with self._contain(local.host, "its selections"):
                    self._tell(local)

    def resume(self, told: Iterable[Mapping[str, Any]], events: Iterable[Mapping[str, Any]]) -> None:
        """Go on with what an earlier life of the daemon was told and did not get to: `host.event` data of selections,
        and of ports.
        """
        self._events.extend(event for event in events if event["port"] is not None)
        now_s = asyncio.get_running_loop().time()
        for data in told:
            with self._contain(str(data["host"]), "its selections"):  # of older records, perhaps
                if (local := self._local(data)) is not None:
                    self._remember(local)
                    self._waiting.append((now_s + GATHER_S, local))
        self._came.set()

    # --- from the event to the selection

    def _local(self, data: Mapping[str, Any]) -> _Local | None:
        host, stamps = str(data["host"]), data.get("stamps") or {}
        try:
            done = msgspec.convert(data["data"], Selected)
        except msgspec.ValidationError as error:
            log.warning("%s: tells of a selection that makes no sense: %s", host, reason_of(error))
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
        return switch in self._owned and self._testbed.switches[switch].owner == host

    def _old_epochs(self, done: Selected) -> str:
        """Words for what was set under a lease that is not in force now; it was then, or the host did not know."""
        old = []
        for name, one in done.switches.items():
            lease = self._delegations.get(name)
            if lease is not None and lease.epoch != one.epoch:
                old.append(f"{name} was set under epoch {one.epoch}, and {lease.epoch} is in force")
        return "; ".join(old)

    def _remember(self, local: _Local) -> None:
        for name, one in local.done.switches.items():
            at_ns = local.stamps[name]["acknowledged_ns"] or local.answered_ns
            if one.now is not None:
                moves = self._moves.setdefault(name, deque([(0, _crossconnects(one.before))], maxlen=MOVES_KEPT))
                moves.append((at_ns, _crossconnects(one.now)))

    # --- documents

    def _tell_at_once(self, local: _Local, *, boot: str) -> None:
        done = local.done
        switches: dict[str, Json] = {}
        for name, one in done.switches.items():
            lease = self._delegations.get(name)
            switches[name] = {
                **msgspec.to_builtins(one),
                **local.stamps[name],
                "epoch_in_force": None if lease is None else lease.epoch,
            }
        self._emit(
            "host.selection",
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
            ports=msgspec.to_builtins(done.ports),
        )

    def _tell(self, local: _Local) -> None:
        done = local.done
        started = self._started(local)
        commanded: list[dict[str, Json]] = [
            {
                "reconfiguration": done.selection,
                "switch": name,
                "commanded_ns": local.stamps[name]["commanded_ns"],
                "acknowledged_ns": local.stamps[name]["acknowledged_ns"],
                "commands": one.commands,
                "window_s": None,
                "error_ns": local.error_ns,
                "source": f"host {local.host}",
            }
            for name, one in done.switches.items()
            if one.commanded_ns is not None
        ]
        self._emit("reconfiguration.started", **started)
        for one in commanded:
            self._emit("reconfiguration.commanded", **one)
        timeline = build_timeline(
            started=started,
            commanded=commanded,
            events=self._events_of(local),
            sampled={},
            switch_origins=self._origins,
        )
        self._emit("timeline", source=LOCAL, host=local.host, **timeline.to_data())
        self._tell_end(local)

    def _tell_unknown(self, local: _Local) -> None:
        self._emit("reconfiguration.started", **self._started(local))
        self._tell_end(local)

    def _tell_end(self, local: _Local) -> None:
        done = local.done
        outcome = "confirmed" if done.outcome == "up" else "failed"
        why = "; ".join(filter(None, [done.why, local.remarks]))
        seconds = (done.answered_ns - done.requested_ns) / 1e9
        self._emit(
            "reconfiguration.ended",
            reconfiguration=done.selection,
            run=None,
            outcome=outcome,
            why=why,
            seconds=seconds,
            source=LOCAL,
            host=local.host,
        )

    def _started(self, local: _Local) -> dict[str, Json]:
        done = local.done
        routed = self._links(local)
        moved = {
            name
            for name, one in done.switches.items()
            if one.commanded_ns is not None or (done.outcome == UNKNOWN and (one.removed or one.added))
        }
        links: list[Json] = [
            {
                "link": str(one.link),
                "kept": not moved.intersection(used.switch for used in one.crossconnects),
                "switches": sorted({used.switch for used in one.crossconnects}),
                "crossconnects": sorted(map(str, one.crossconnects)),
            }
            for one in routed
        ]
        return {
            "reconfiguration": done.selection,
            "run": None,
            "hash": "",
            "what": local.what,
            "sweep": {},
            "settings": {},
            "links": links,
            "moves": [{"switch": name, "remove": one.removed, "add": one.added} for name, one in done.switches.items()],
            "source": LOCAL,
            "host": local.host,
            "epochs": dict(local.epochs),
        }

    def _links(self, local: _Local) -> list[RoutedLink]:
        """Those of its ports, as all stood when it was answered; a port that came up is in one, whatever the far end
        has told by now.
        """
        mine = {NicPortId(host=local.host, port=port): one.up for port, one in local.done.ports.items()}
        state = self._state_at(local.answered_ns + local.error_ns)
        others = frozenset(name for name in self._owned if not self._is_of(name, local.host))
        linked = {end for one in self._fabric.links_of(state) for end in one.ends}
        for port, up in mine.items():
            if up and port not in linked:
                state = state_with_link(self._fabric, port, state, others)
        return [one for one in self._fabric.routed_of(state) if not mine.keys().isdisjoint(one.link.ends)]

    def _state_at(self, at_ns: int) -> Mapping[str, Iterable[Crossconnect]]:
        """How all stood then: those of hosts by their selections, the others as they are."""
        state: dict[str, Iterable[Crossconnect]] = {
            name: [one.crossconnect for one in readings] for name, readings in self._observed().items()
        }
        for name, moves in self._moves.items():
            stood = [there for moved_ns, there in moves if moved_ns <= at_ns]
            if stood:
                state[name] = stood[-1]
        return state

    def _events_of(self, local: _Local) -> list[Mapping[str, Any]]:
        """All that hosts saw from when it was asked for; what comes after the answer is the far end's."""
        until_ns = local.answered_ns + round(GATHER_S * 1e9)
        return [
            event
            for event in self._events
            if event["latest_ns"] >= local.requested_ns - GRACE_NS and event["earliest_ns"] <= until_ns
        ]

    def _emit(self, kind: str, **data: Json) -> None:
        at_ns, wall_ns = self._clock.monotonic_ns(), self._clock.wall_ns()
        self._sink(Document(kind=kind, at_ns=at_ns, wall_ns=wall_ns, data=data))


def _words(one: SwitchSet) -> str:
    return ",".join(one.wanted) or "dark"


def _crossconnects(texts: Iterable[str]) -> frozenset[Crossconnect]:
    found = set()
    for text in texts:
        try:
            found.add(Crossconnect.parse(text))
        except ConfigError as error:
            log.warning("a selection tells of %r: %s", text, error)
    return frozenset(found)
