"""RdmaWatcher: reports when an RDMA port became active and has its GID, and when it stopped being so.

It uses two sources, because either alone misses flaps: events of the device by verbs, and its files, which are polled.
The kernel's count of carrier changes checks both: a fall that neither has shown is counted as unseen, without a time.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from hwd_agents.probes.verbs_ports import SOURCE as VERBS
from hwd_agents.probes.verbs_ports import VerbsPorts
from hwd_agents.process.config import SamplingConfig
from hwd_agents.sources.link_source import LinkReading
from hwd_agents.sources.readings import FileSource
from hwd_agents.sources.verbs.verbs import PortEvent
from hwd_agents.spool.outbox import Emit
from hwd_agents.watchers.flaps import Flaps
from hwd_agents.watchers.gids import PortGids
from hwd_agents.watchers.poll_timer import PollTimer
from hwd_agents.watchers.tally import Tally
from hwd_agents.wire import Observation
from hwd_agents.wire.events import RdmaData
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import LinkError

SOURCE: Final = "sysfs"
ACTIVE: Final = "4:"
"""The kernel's `ports/N/state` reads `4: ACTIVE` (IBA 1.7, 14.2.5.6: PortState 4)."""
PATIENCE_PARTS: Final = 50
"""Fast polls slow down to one 50th of the time since the carrier changed: the error stays within 2 %."""
LATE_S: Final = 1.0
"""The event of a fall that the files have shown may come so late: the kernel passes events to a worker thread."""
STEADY_S: Final = 0.5
"""Falls are compared with those of the carrier after so long without a change."""
_log = logging.getLogger(__name__)


class RdmaWatcher:
    """The watcher of one port's RDMA `device` emits events `rdma`.

    Files are polled, fast while the port is observed and its carrier and RDMA state differ; device events need no poll.
    `late_ns`: how late an event of a device may be that is handled now. `active`: None when it is unknown. `why_not`:
    why the port cannot be seen; empty when it can.
    """

    def __init__(
        self,
        name: str,
        device: str,
        ip: str | None,
        source: FileSource,
        clock: Clock,
        emit: Emit,
        *,
        carrier: Callable[[str], bool | None],
        sampling: SamplingConfig,
        on_active: Callable[[str], None],
        verbs: VerbsPorts | None = None,
        late_ns: Callable[[], int] = lambda: 0,
    ) -> None:
        self._on_active = on_active
        self._verbs = verbs
        self._late_ns = late_ns
        self._name = name
        one, _, number = device.partition("/")
        self._folder = f"class/infiniband/{one}/ports/{number or 1}"
        self._gids = PortGids(source, self._folder, ip)
        self._source = source
        self._clock = clock
        self._emit = emit
        self._carrier = carrier
        self._sampling = sampling
        self._poll_timer = PollTimer()
        self._observed = False
        self._tally: Tally | None = None
        self._changed_s = 0.0
        self._last_ns: int | None = None  # when the last poll began
        self._looked: asyncio.Future[None] | None = None
        self._known: bool | None = None  # stays while a source is away
        self._changed_ns: int | None = None  # not after the last change of `_known`
        self._fell_s: float | None = None  # when files showed a fall whose event has not come yet
        self._pushed = False  # whether verbs reported each change since the last poll
        self._flaps = Flaps()
        self._reading: LinkReading | None = None
        self.active: bool | None = None
        self.why_not = ""

    async def run(self) -> None:
        while True:
            await self._look()
            await self._poll_timer.wait(self._every_s())

    def hurry(self) -> None:
        self._poll_timer.hurry()

    async def begin(self) -> None:
        """Observe the port; returns after its first poll."""
        self._observed = True
        self._tally = None
        looked = self._looked = asyncio.get_running_loop().create_future()
        self._poll_timer.hurry()
        await looked

    def end(self) -> None:
        self._settle_flaps()
        self._observed = False
        if self._tally is not None:
            self._tally.end(self._clock.monotonic_ns())

    def carrier_changed(self, reading: LinkReading) -> None:
        """Poll at once: RDMA follows the carrier."""
        before, self._reading = self._reading, reading
        self._changed_s = asyncio.get_running_loop().time()
        if before is not None:
            since_ns = before.at_ns if reading.earliest_ns is None else reading.earliest_ns
            self._flaps.count(_falls(before, reading), since_ns)
        if self._observed or before is not None:
            self._poll_timer.hurry()

    def take(self, event: PortEvent, at_ns: int) -> None:
        """Process an event of the device. A fall is reported at once; a port that is up again needs its GID too.

        The poll before it may have found the port active after the fall of which the event comes only now.
        """
        if event is PortEvent.ERROR:
            late = self._fell_s is not None and asyncio.get_running_loop().time() - self._fell_s < LATE_S
            self._fell_s = None
            if self._known and not late:
                earliest_ns = None if self._last_ns is None else min(self._last_ns, at_ns - self._late_ns())
                self._change(False, earliest_ns, at_ns, VERBS)
        self._poll_timer.hurry()

    def observation(self) -> Observation:
        if self._tally is None:
            return Observation(seen=False, why_not=self.why_not or "not observed")
        return self._tally.observation(self._clock.monotonic_ns(), polled=not self._pushed)

    def _every_s(self) -> float | None:
        slow_s = self._sampling.rdma_slow_s or None
        if not self._observed or self.active is None or self._carrier(self._name) == self.active:
            return slow_s
        waited_s = asyncio.get_running_loop().time() - self._changed_s
        return max(self._sampling.rdma_fast_s, min(waited_s / PATIENCE_PARTS, slow_s or 1.0))

    async def _look(self) -> None:
        port = None if self._verbs is None else self._verbs.port(self._name)
        if port is not None:
            port.drain()  # earlier events before the state that is read now
        try:
            state = await self._source.read_file(f"{self._folder}/state")
            active, after_ns = state.text is not None and state.text.startswith(ACTIVE), state.after_ns
            if active:
                active, after_ns = await self._gids.look()
        except LinkError as error:
            self._failed(str(error))
        else:
            if state.text is None:
                self._flaps = Flaps()  # a device that does not exist does not flap
                self._failed(f"there is no {self._folder}/state")
            else:
                self._took(active, state.before_ns, after_ns)
        self._pushed = port is not None
        looked, self._looked = self._looked, None
        if looked is not None:
            if self._observed and self._tally is None:
                self._tally = Tally(from_ns=self._clock.monotonic_ns(), latched=self._pushed, state=self.active)
                if self.why_not:
                    self._tally.fail(self.why_not)
            if not looked.done():
                looked.set_result(None)

    def _failed(self, why: str) -> None:
        if why != self.why_not:
            _log.info("%s: its RDMA state is unseen: %s", self._name, why)
        self.why_not = why
        self.active = None
        if self._tally is not None:
            self._tally.fail(why)

    def _took(self, active: bool, before_ns: int, after_ns: int) -> None:
        self.why_not = ""
        last_ns, self._last_ns = self._last_ns, before_ns
        if self._known is not None and self._known != active and last_ns is not None:
            if not active:
                self._fell_s = asyncio.get_running_loop().time()
            self._change(active, last_ns, after_ns, VERBS if self._pushed else SOURCE)
            return
        self.active = self._known = active
        if self._tally is not None:
            self._tally.look(after_ns, active, latched=self._pushed)
        steady_s = asyncio.get_running_loop().time() - self._changed_s
        if active and self._carrier(self._name) and steady_s >= STEADY_S:
            self._settle_flaps()

    def _change(self, active: bool, earliest_ns: int | None, at_ns: int, source: str) -> None:
        fell = self._known is True and not active
        self.active = self._known = active
        # Changes do not overlap; when the last one was found, this one may have ended already.
        known = [each for each in (earliest_ns, self._changed_ns) if each is not None]
        earliest_ns = self._changed_ns = max(known, default=at_ns)
        if fell:
            self._flaps.see()
        if self._tally is not None:
            self._tally.look(at_ns, active, lost=int(fell), latched=self._pushed)
        self._tell(RdmaData(active=active), earliest_ns, at_ns, source)
        if active:
            self._on_active(self._name)

    def _settle_flaps(self) -> None:
        """Count the falls that were never seen, when both are up; while one is down its fall may still come."""
        if not self.active or not self._carrier(self._name):
            return
        if self._reading is not None and (self._last_ns or 0) < self._reading.at_ns:
            return  # no poll since then
        unseen, since_ns = self._flaps.unseen()
        if unseen:
            at_ns = self._clock.monotonic_ns()
            if self._tally is not None:
                self._tally.look(at_ns, True, lost=unseen, latched=self._pushed)
            self._tell(RdmaData(active=True, missed=unseen), since_ns, at_ns, VERBS if self._pushed else SOURCE)

    def _tell(self, data: RdmaData, earliest_ns: int, at_ns: int, source: str) -> None:
        self._emit(
            "rdma",
            self._name,
            earliest_ns=earliest_ns,
            at_ns=at_ns,
            source=source,
            origin=self._source.note.origin,
            sampling_ns=at_ns - earliest_ns,
            data=data,
        )


def _falls(before: LinkReading, reading: LinkReading) -> int:
    """How often the carrier fell between the two: each second change is a fall."""
    is_reset = before.ifindex != reading.ifindex or before.carrier_changes > reading.carrier_changes
    if is_reset:
        return int(before.carrier and not reading.carrier)
    return (reading.carrier_changes - before.carrier_changes + before.carrier) // 2
