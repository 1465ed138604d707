"""Outbox: passes the watchers' events through the spool to the broker, in order and with little delay."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from hwd_agents.spool.lost_events import StoredEvent
from hwd_agents.spool.spool import Mark, Spool
from hwd_agents.wire import EVENTS_MAX, Ack, Event
from hwd_drivers.core.errors import LinkError
from hwd_drivers.core.structs import to_plain

IN_FLIGHT: Final = 4
"""Most messages without the broker's acknowledgement: enough for a round trip, few to send again."""
WINDOW_EVENTS: Final = 16 * EVENTS_MAX
"""Most events of a boot without the daemon's acknowledgement."""
PATIENCE_FIRST_S: Final = 2.0
PATIENCE_MOST_S: Final = 30.0
"""Without an acknowledgement for so long, the oldest batch is sent again: the daemon may have been away."""
DISK_AGAIN_S: Final = 10.0
"""What the disk refused is tried again at least so often, also without new events."""
PAUSE_S: Final = 0.05
"""Wait after a publish that failed although the bus reports that it is up."""

_log = logging.getLogger(__name__)


class Emit(Protocol):
    """How a watcher reports an event.

    `data`: the struct of its kind (`hwd_agents.wire.events.DATA`), or its fields by name.
    """

    def __call__(
        self,
        kind: str,
        port: str | None,
        *,
        earliest_ns: int,
        at_ns: int,
        source: str,
        origin: str,
        sampling_ns: int = 0,
        data: msgspec.Struct | Mapping[str, Any],
        marks: Mapping[str, Mark] | None = None,
    ) -> None: ...


class Outbox:
    """The outbox: `emit` puts an event into the spool and wakes a worker, which publishes it in the loop's next turn.

    The first event of a turn is written at once, and all others of that turn together at its end: a single event does
    not wait, and a burst costs two appends.
    """

    def __init__(
        self, spool: Spool, *, is_up: Callable[[], bool], publish: Callable[[str, list[StoredEvent]], Awaitable[None]]
    ) -> None:
        self._spool = spool
        self._is_up = is_up
        self._publish = publish
        self._sent: dict[str, int] = {}
        self._resends: deque[tuple[str, int, int]] = deque()
        self._window = WINDOW_EVENTS
        self._idle: deque[asyncio.Future[None]] = deque()
        self._woken = False
        self._due = False
        """Whether there may be something to send, as far as workers have not looked."""
        self._is_window_full = False
        self._acks = 0

    def emit(
        self,
        kind: str,
        port: str | None,
        *,
        earliest_ns: int,
        at_ns: int,
        source: str,
        origin: str,
        sampling_ns: int = 0,
        data: msgspec.Struct | Mapping[str, Any],
        marks: Mapping[str, Mark] | None = None,
    ) -> None:
        """Take an event; it is written and published within a turn of the loop."""
        event = Event(
            seq=self._spool.next_seq,
            at_ns=at_ns,
            earliest_ns=min(earliest_ns, at_ns),
            kind=kind,
            port=port,
            source=source,
            origin=origin,
            sampling_ns=max(0, sampling_ns),
            data=to_plain(data),
        )
        self._spool.add(event, marks=marks)
        if not self._woken:
            self._spool.flush()
        self._wake()

    def mark(self, name: str, value: Mark) -> None:
        """Set a mark that belongs to no event."""
        self._spool.mark(name, value)
        self._wake()

    def go(self) -> None:
        """The bus has reconnected: send everything again that is not acknowledged."""
        self._sent.clear()
        self._wake()

    def ack(self, ack: Ack) -> bool:
        """The daemon has these events; False: that is impossible, some of them never existed."""
        if ack.boot == self._spool.boot and ack.upto >= self._spool.next_seq:
            return False
        if self._spool.ack(ack.boot, ack.upto):
            self._acks += 1
            self._window = WINDOW_EVENTS
            if self._is_window_full:
                self._wake()
        return True

    def resend(self, boot: str, from_seq: int, upto_seq: int) -> int:
        """Send these again, as far as they are still in the spool; returns their number."""
        here = len(self._spool.batch(boot, after=from_seq - 1, upto=upto_seq, limit=WINDOW_EVENTS))
        if here:
            self._resends.append((boot, from_seq - 1, upto_seq))
            self._wake()
        return here

    async def run(self) -> None:
        """Publish until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(IN_FLIGHT):
                group.create_task(self._work(), name=f"hwd:outbox/{number}")
            group.create_task(self._be_patient(), name="hwd:outbox/acks")
            group.create_task(self._try_disk(), name="hwd:outbox/disk")

    async def _work(self) -> None:
        while True:
            if not self._due:
                idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._idle.append(idle)
                await idle
            self._woken = self._due = False
            self._spool.flush()
            batch = self._next() if self._is_up() else None
            if batch is None:
                continue
            boot, events = batch
            if len(events) == EVENTS_MAX:
                self._wake()  # there is more: another worker may send it
            try:
                await self._publish(boot, events)
            except LinkError as error:
                _log.debug("outbox: %d events did not go out: %s", len(events), error)
                await asyncio.sleep(PAUSE_S)

    async def _be_patient(self) -> None:
        patience_s = PATIENCE_FIRST_S
        while True:
            acks = self._acks
            await asyncio.sleep(patience_s)
            waits = any(self._spool.batch(boot, after=0, upto=upto, limit=1) for boot, upto in self._sent.items())
            if self._acks != acks or not waits or not self._is_up():
                patience_s = PATIENCE_FIRST_S
                continue
            patience_s = min(2 * patience_s, PATIENCE_MOST_S)
            self._window = EVENTS_MAX
            self.go()

    async def _try_disk(self) -> None:
        while True:
            await asyncio.sleep(DISK_AGAIN_S)
            self._spool.try_again()

    def _wake(self) -> None:
        self._due = True
        if self._woken:
            return
        self._woken = True
        while self._idle:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                return
        asyncio.get_running_loop().call_soon(self._flush)  # when all workers are busy, the disk comes first

    def _flush(self) -> None:
        self._woken = False
        self._spool.flush()

    def _next(self) -> tuple[str, list[StoredEvent]] | None:
        while self._resends:
            boot, after, upto = self._resends[0]
            events = self._spool.batch(boot, after=after, upto=upto)
            if events and events[-1].seq < upto:
                self._resends[0] = (boot, events[-1].seq, upto)
            else:
                self._resends.popleft()
            if events:
                self._due = True
                return boot, events
        self._is_window_full = False
        for boot, stored in self._spool.events.items():
            sent = self._sent.get(boot, 0)
            events = self._spool.batch(boot, after=sent)
            if not events:
                continue
            if sent - stored[0].seq + 1 >= self._window:
                self._is_window_full = True
                continue
            self._sent[boot] = events[-1].seq
            self._due = boot != self._spool.boot or len(events) == EVENTS_MAX
            return boot, events
        return None
