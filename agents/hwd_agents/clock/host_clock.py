"""HostClock: answers the daemon's questions for this host's time, and reports what synchronises its wall clock."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from hwd_agents.clock.clock_port import ClockPort
from hwd_agents.sources.kernel.wall_clock import WallSource
from hwd_agents.wire import ClockNote, ClockReply, ClockRequest, WallClock
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import HwdError, LinkError
from hwd_drivers.core.reason import reason_of

NAME: Final = "clock"
WALL_EVERY_S: Final = 60.0
"""Poll interval of the wall clock's state: it only makes labels. chrony asks its own servers as rarely."""
TELL_FACTOR: Final = 2.0
"""A bound that changed by this factor is worth another birth message."""

_log = logging.getLogger(__name__)


class HostClock:
    """The host's clock; `reply` publishes an answer over the broker. `on_change` is called when the note has changed.

    `walls`: programs that may synchronise the wall clock; the first that does is reported.
    """

    def __init__(
        self,
        host: str,
        clock: Clock,
        *,
        port: ClockPort | None,
        walls: Sequence[WallSource],
        reply: Callable[[ClockReply], Awaitable[None]],
        on_change: Callable[[], None],
    ) -> None:
        self._host = host
        self._clock = clock
        self._port = port
        self._walls = walls
        self._reply = reply
        self._on_change = on_change
        self._wall: WallClock | None = None
        self._last_note: ClockNote | None = None
        self._seq = 0

    @property
    def news(self) -> bool:
        """Whether the note differs from the last one that was published."""
        return self._note() != self._last_note

    def tell(self) -> ClockNote:
        """The note for the birth message that is published now."""
        self._last_note = self._note()
        return self._last_note

    @property
    def refused(self) -> int:
        """Datagrams to the clock without a valid key."""
        return 0 if self._port is None else self._port.refused

    async def run(self) -> None:
        """Poll what synchronises the wall clock, until cancelled."""
        while self._walls:
            wall = await self._read_wall()
            if self._wall is None or _differs(self._wall, wall):
                self._wall = wall
                self._on_change()
            await asyncio.sleep(WALL_EVERY_S)
        await asyncio.Event().wait()

    async def listen_towards_broker(self) -> None:
        """The broker was reached: our address towards it may have changed."""
        if self._port is not None:
            await self._port.listen_towards_broker()

    def close(self) -> None:
        """Stop answering over UDP."""
        if self._port is not None:
            self._port.close()

    async def answer(self, request: ClockRequest, t2_ns: int) -> None:
        """Answer a request that came over the broker at `t2_ns`."""
        self._seq += 1
        reply = ClockReply(
            boot=request.boot,
            seq=self._seq,
            id=request.id,
            t1_ns=request.t1_ns,
            t2_ns=t2_ns,
            t3_ns=self._clock.monotonic_ns(),
        )
        try:
            await self._reply(reply)
        except LinkError as error:
            _log.debug("%s: clock reply %d: %s", self._host, request.id, error)

    def _note(self) -> ClockNote:
        if self._port is None:
            return ClockNote(udp=None, why_not_udp="its configuration names no port for it", wall=self._wall)
        return ClockNote(udp=self._port.udp, why_not_udp=self._port.why_not, wall=self._wall)

    async def _read_wall(self) -> WallClock:
        whys = []
        for source in self._walls:
            try:
                return await source.read()
            except (HwdError, OSError) as error:
                whys.append(reason_of(error))
        return WallClock(synchronised_by=None, why_not="; ".join(whys))


def _differs(before: WallClock, now: WallClock) -> bool:
    """Whether the difference is worth a message: figures change with every poll."""
    if (before.synchronised_by, before.reference, before.stratum) != (now.synchronised_by, now.reference, now.stratum):
        return True
    if before.error_s is None or now.error_s is None:
        return before.error_s is not now.error_s
    low_s, high_s = sorted([before.error_s, now.error_s])
    return high_s > TELL_FACTOR * low_s or abs((before.offset_s or 0.0) - (now.offset_s or 0.0)) > high_s
