"""HostEvents: the events of all agents, from their messages to documents, with acknowledgements and resends."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from hwd.bus.acks import Acks
from hwd.bus.containment import Containment
from hwd.bus.event import host_event
from hwd.bus.gaps import WITHIN_S as RESEND_WITHIN_S
from hwd.bus.gaps import Gaps
from hwd.bus.host_agent import Emit, HostAgent
from hwd.bus.intake import Intake
from hwd.model.host import HostLost
from hwd.model.plural import plural
from hwd.timeline.alignment import Alignment
from hwd_agents.wire import Birth, Event, Events, Reply, Resent
from hwd_agents.wire.events import CarrierData, LostData
from hwd_drivers.core.errors import ProtocolError

log = logging.getLogger(__name__)

UNALIGNED_S = 10.0
"""Events of a past boot whose clock was never aligned wait this long for its birth or for its alignment."""
UNALIGNED_BOOT_S = 60.0
"""An intake whose events were dropped is deleted after this time. An agent that gets no acknowledgement sends them
again after half of it."""
UNALIGNED_BOOTS_MOST, SAME_CLOCK_BOOTS_MOST = 4, 256
"""Boots of one host without an alignment whose events are accepted at a time: those with a clock of their own, and
those on the clock of the current boot. Events of more are rejected; the agent sends them again later."""
PAST_BOOTS_MOST = 1024
"""Past boots of one host whose last sequence number is stored: 4 times what a spool may hold. An event of an older boot
would count as new if it came again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventStore:
    """The records, as far as they concern the events of agents.

    `alignments`: by boot, stored earlier. `positions`: by host and boot, the last sequence number that is stored; the
    oldest boot first. `flush` returns when all documents are durable, or raises HwdError; None: they always are. While
    `full` returns True the sink takes no events: they wait in memory and in the spools of the agents.
    """

    alignments: Mapping[str, Alignment] = field(default_factory=dict)
    positions: Mapping[tuple[str, str], int] = field(default_factory=dict)
    flush: Callable[[], Awaitable[None]] | None = None
    full: Callable[[], bool] = lambda: False


class HostEvents:
    """Holds the alignment of each boot and the position up to which its events were emitted.

    Events are emitted in order and once each, as `host.event` on the daemon's clock. They are acknowledged when they
    are durable. Missing ones are requested again, and reported as `host.lost` when they do not come.

    `command(host, arguments, within_s=...)` and `acknowledge(host, boot, upto)` go to the agent.
    """

    def __init__(
        self,
        hosts: Mapping[str, HostAgent],
        *,
        store: EventStore,
        alignments: dict[str, Alignment],
        command: Callable[..., Awaitable[tuple[Reply, Resent | None]]],
        acknowledge: Callable[[str, str, int], Awaitable[object]],
        emit: Emit,
        containment: Containment,
    ) -> None:
        self._alignments = alignments
        self._positions: dict[str, dict[str, int]] = {name: {} for name in hosts}  # by boot: the oldest first
        for (name, boot), upto in store.positions.items():
            self._positions.setdefault(name, {})[boot] = upto
        self._full = store.full
        self._emit = emit
        self._contain = containment.of
        self._acks = Acks(durable=store.flush, send=acknowledge)
        self._gaps = Gaps(
            partial(command, within_s=RESEND_WITHIN_S),
            full=store.full,
            lost=self._emit_missing,
            pass_on=self.pass_on,
            containment=containment,
        )
        self.run = self._acks.run
        """Send acknowledgements until cancelled."""

    def align(self, host: HostAgent, alignment: Alignment) -> None:
        """Store the newest alignment of a boot, and emit the events that waited for one."""
        self._alignments[alignment.boot] = alignment
        for boot in list(host.intakes):
            self.pass_on(host, boot)

    def begin(self, host: HostAgent, birth: Birth, *, retained: bool) -> None:
        """Expect the events of a new current boot, from the oldest one in its spool.

        `retained`: the birth is old, so that the oldest events may be acknowledged and deleted since.
        """
        self._intake(host, birth.boot, birth.clock).begin(birth.spool_oldest_seq, as_of_then=retained)
        self.pass_on(host, birth.boot)

    def take(self, host: HostAgent, message: Events) -> None:
        """Take the events of a message. Raises ProtocolError where too many boots wait for an alignment."""
        if message.boot in host.intakes or self._may_begin(host, message.boot, message.clock):
            self._intake(host, message.boot, message.clock).take(message.events)
            self.pass_on(host, message.boot)

    def check(self, host: HostAgent) -> None:
        """Continue with what could not be emitted before, and delete past boots that are done. Call it each second."""
        for boot in list(host.intakes):
            with self._contain(host.name, "its events"):
                self.pass_on(host, boot)
                if host.past(boot):
                    self._release(host, boot)

    def pass_on(self, host: HostAgent, boot: str) -> None:
        """Emit the events that are in order and aligned, acknowledge them, and request missing ones."""
        if self._full():
            return
        intake = host.intakes[boot]
        alignment = self._alignments.get(boot) or self._alignment_of(host, boot)
        if alignment is not None and (events := intake.ready()):
            host.losses.add(boot, events[0].seq, events[-1].seq)
            rest = iter(events)
            for event in rest:
                failed: Event | None = event
                with self._contain(host.name, "its events"):  # where one fails, the loop goes on behind it
                    for failed in chain((event,), rest):
                        self._emit_event(host, boot, failed, alignment)
                    failed = None
                if failed is not None:  # it is acknowledged with the events behind it
                    self._emit_lost(host, boot, 1, f"the daemon failed on event {failed.seq}; its log says why")
        if (upto := intake.next_ack()) is not None:
            self._acks.owe(host.name, boot, upto)
        if intake.held and intake.gap is not None:
            self._gaps.fill(host, boot)

    def _may_begin(self, host: HostAgent, boot: str, clock: str) -> bool:
        """Whether the events of one more boot are accepted now: a sender can invent boots.

        Raises ProtocolError where too many wait for an alignment.
        """
        unaligned = [each for each in (*host.intakes, boot) if each != host.boot and each not in self._alignments]
        most = SAME_CLOCK_BOOTS_MOST if host.has_clock(clock) else UNALIGNED_BOOTS_MOST
        if boot in unaligned and len(unaligned) > most:
            raise ProtocolError(f"events of more than {plural(most, 'boot')} whose clock was never aligned")
        is_known = boot in self._alignments or boot in self._positions[host.name] or not host.is_new(boot)
        return is_known or host.allowance.unknown_boot()

    def _intake(self, host: HostAgent, boot: str, clock: str) -> Intake:
        if boot not in host.intakes:
            host.intakes[boot] = Intake(asyncio.get_running_loop().time())
            if (position := self._positions[host.name].get(boot)) is not None:
                host.intakes[boot].begin(position + 1)
        host.intakes[boot].clock = clock or host.intakes[boot].clock
        return host.intakes[boot]

    def _alignment_of(self, host: HostAgent, boot: str) -> Alignment | None:
        """The alignment of the boot, else that of the current boot where both have the same clock."""
        if boot not in self._alignments and host.boot is not None and host.same_clock(boot):
            boot = host.boot
        return self._alignments.get(boot)

    def _release(self, host: HostAgent, boot: str) -> None:
        """Drop events of a past boot that will never be aligned; delete its intake when all is acknowledged."""
        intake = host.intakes[boot]
        age_s = asyncio.get_running_loop().time() - intake.since_s
        aligned = self._alignment_of(host, boot) is not None
        hopeless = not aligned and not host.same_clock(boot)
        if hopeless and age_s >= UNALIGNED_S and not self._full() and (dropped := intake.drop()) is not None:
            why = "they come from a boot whose clock was never aligned"
            self._emit_lost(host, boot, host.losses.add(boot, *dropped), why)
            self.pass_on(host, boot)
        busy = intake.held or self._acks.owes(host.name, boot) or self._gaps.filling(host, boot)
        if not busy and (aligned or age_s >= UNALIGNED_BOOT_S):
            if aligned:
                self._set_position(host.name, boot, intake.upto)
            host.forget(boot)

    def _set_position(self, host: str, boot: str, upto: int) -> None:
        positions = self._positions[host]
        positions.pop(boot, None)
        positions[boot] = upto
        if len(positions) > PAST_BOOTS_MOST:
            del positions[next(iter(positions))]

    # --- documents

    def _emit_event(self, host: HostAgent, boot: str, event: Event, alignment: Alignment) -> None:
        self._emit(host_event(host.name, boot, event, alignment, past=boot != host.boot))
        if boot == host.boot and event.kind in ("carrier", "interface", "rdma"):
            host.event(event)
        match event.data:
            case LostData(why=why) as lost:
                self._emit_lost(host, boot, host.losses.reported(lost), why or "the spool was full")
            case CarrierData(unseen=int(unseen)) if unseen:
                self._emit_lost(host, boot, unseen, "flaps that nobody saw one by one")

    def _emit_missing(self, host: HostAgent, boot: str, first: int, last: int) -> None:
        self._emit_lost(host, boot, host.losses.add(boot, first, last), "asked for again, and they did not come")

    def _emit_lost(self, host: HostAgent, boot: str, count: int, why: str) -> None:
        if count and not host.lost:  # the log has the first loss only: each has its document
            log.warning(
                "%s: %d events lost: %s. `hwd watch --kind host.lost --after 0` lists them", host.name, count, why
            )
        host.lost += count
        if count:
            self._emit(HostLost(host=host.name, boot=boot, count=count, why=why))
