"""LinkWatcher: turns the kernel's reports of interfaces into events, and counts every flap, also those not seen."""

import asyncio
import logging
import math
from collections.abc import Callable, Collection, Mapping
from typing import Final

from hwd_agents.process.config import PortConfig, SamplingConfig
from hwd_agents.sources.link_source import LinkReading
from hwd_agents.sources.sources import Sources
from hwd_agents.spool.outbox import Emit
from hwd_agents.spool.spool import Mark
from hwd_agents.watchers.poll_timer import PollTimer
from hwd_agents.watchers.tally import Tally
from hwd_agents.wire import Observation
from hwd_agents.wire.events import CarrierData, InterfaceData
from hwd_drivers.core.clock import Clock

SOURCE: Final = "link"

log = logging.getLogger(__name__)

OnCarrier = Callable[[str, LinkReading], None]
"""Called with a port's name and its new reading, after the event."""


class LinkWatcher:
    """The watcher of interfaces emits events `carrier` and `interface`.

    `carrier_changes` is the kernel's own count. Its increase beyond the one change that was seen is `unseen`. The last
    count is stored as a mark in the spool, with the run of the counters (`life`) and the ifindex, so that flaps while
    no agent ran are counted as well. If an agent is killed between the kernel's notice and its event, the next one
    counts that change: it reports that it happened at some time since the last mark, and not when.
    """

    def __init__(
        self,
        ports: Mapping[str, PortConfig],
        sources: Sources,
        clock: Clock,
        emit: Emit,
        *,
        marks: Mapping[str, Mark],
        set_mark: Callable[[str, Mark], None],
        sampling: SamplingConfig,
        origin: str,
    ) -> None:
        self._ports = {port.interface: name for name, port in ports.items()}
        self._sources = sources
        self._clock = clock
        self._emit = emit
        self._marks = dict(marks)
        self._set_mark = set_mark
        self._sampling = sampling
        self._origin = origin
        self._readings: dict[str, LinkReading] = {}
        self._names: dict[int, str] = {}  # of all interfaces that exist
        self._lives: dict[str, str] = {}
        self._opened = False
        self._open = False
        self._tallies: dict[str, Tally] = {}
        self._observed: dict[str, None] = {}
        self._poll_timer = PollTimer()
        self.on_carrier: list[OnCarrier] = []
        self.on_presence: list[OnCarrier] = []

    def reading(self, port: str) -> LinkReading | None:
        """The last reading of a port; None when its interface never existed."""
        return self._readings.get(port)

    def carrier(self, port: str) -> bool | None:
        """Whether a port has carrier; None when its interface does not exist."""
        reading = self._readings.get(port)
        return reading.carrier if reading is not None and reading.present else None

    async def run(self) -> None:
        """Watch until cancelled; raises what the source raises."""
        loop = asyncio.get_running_loop()
        try:
            await self._sources.link.open(self._take)
            self._opened = self._open = True
            slow_s = self._sampling.links_slow_s or math.inf
            all_due_s = loop.time() + slow_s
            while True:
                every_s = self._sampling.links_fast_s if self._observed else self._sampling.links_slow_s
                await self._poll_timer.wait(every_s or None)
                if self._observed and loop.time() < all_due_s:
                    await self._sources.link.refresh(self._interfaces_of(self._observed))
                else:
                    await self._sources.link.refresh()
                    all_due_s = loop.time() + slow_s
        finally:
            self._open = False
            await self._sources.link.close()

    async def refresh(self, ports: Collection[str] | None = None) -> bool:
        """Read all interfaces now, or those of `ports`. While the source is away, return False: it reads all when it
        is back.
        """
        if not self._open:
            return False
        await self._sources.link.refresh(None if ports is None else self._interfaces_of(ports))
        return True

    def begin(self, port: str) -> None:
        """Observe a port: read it more often, and count its changes."""
        self._observed[port] = None
        state = self.carrier(port)
        self._tallies[port] = Tally(from_ns=self._clock.monotonic_ns(), latched=True, state=state)
        if state is None:
            self._tallies[port].fail(self._why_missing(port))
        self._poll_timer.hurry()

    def end(self, port: str) -> None:
        self._observed.pop(port, None)
        if port in self._tallies:
            self._tallies[port].end(self._clock.monotonic_ns())

    def observation(self, port: str) -> Observation:
        """What was seen of a port since `begin`."""
        if port not in self._tallies:
            return Observation(seen=False, why_not="not observed")
        return self._tallies[port].observation(self._clock.monotonic_ns(), polled=False)

    def why_not(self, port: str) -> str:
        """Why a port cannot be seen now; empty when it can."""
        return "" if not self._opened or self.carrier(port) is not None else self._why_missing(port)

    def _interfaces_of(self, ports: Collection[str]) -> list[str]:
        return [interface for interface, port in self._ports.items() if port in ports]

    def _take(self, reading: LinkReading) -> None:
        if reading.present:
            self._names[reading.ifindex] = reading.interface
        elif self._names.get(reading.ifindex) == reading.interface:
            del self._names[reading.ifindex]
        port = self._ports.get(reading.interface)
        if port is None:
            return
        before = self._readings.get(port)
        mark = _mark(reading, self._sources.life())
        self._readings[port] = reading
        life, self._lives[port] = self._lives.get(port), mark["life"]
        if before is None:
            self._first(port, reading, mark)
        else:
            self._next(port, before, reading, mark, same_life=life == mark["life"])

    def _first(self, port: str, reading: LinkReading, mark: Mark) -> None:
        """Process the first reading in this process; a mark may hold the state of an earlier process."""
        old = self._marks.get(_mark_name(reading.interface))
        if self._opened and reading.present:
            self._tell_presence(port, reading)
        if old is None or old["life"] != mark["life"]:
            self._set_mark(_mark_name(reading.interface), mark)
        else:
            is_reset = old["ifindex"] != reading.ifindex or old["changes"] > reading.carrier_changes
            changes = reading.carrier_changes - (0 if is_reset else old["changes"])
            self._tell_carrier(port, reading, mark, was=old["carrier"], changes=changes, since_ns=_held_ns(old))
        if reading.carrier:
            for call in self.on_carrier:
                call(port, reading)

    def _next(self, port: str, before: LinkReading, reading: LinkReading, mark: Mark, *, same_life: bool) -> None:
        is_reset = (
            not same_life or before.ifindex != reading.ifindex or before.carrier_changes > reading.carrier_changes
        )
        changes = reading.carrier_changes - (0 if is_reset else before.carrier_changes)
        if not same_life:
            changes = int(before.carrier != reading.carrier)  # the last value of the old counter is unknown
        is_news = before.present != reading.present or (is_reset and reading.present)
        if is_news:
            self._tell_presence(port, reading)
        is_reported = self._tell_carrier(
            port, reading, mark, was=before.carrier, changes=changes, since_ns=before.at_ns
        )
        if is_news and not is_reported:
            self._set_mark(_mark_name(reading.interface), mark)
        if before.carrier != reading.carrier or changes:
            for call in self.on_carrier:
                call(port, reading)

    def _tell_presence(self, port: str, reading: LinkReading) -> None:
        """Report it without a mark: a mark would count changes that are reported only after this, and a killed process
        would lose them.
        """
        if reading.present:
            log.info("%s: its interface %s is there", port, reading.interface)
        else:
            log.warning("%s: %s", port, self._why_missing(port))
        since_ns = reading.at_ns if reading.earliest_ns is None else reading.earliest_ns
        self._emit(
            "interface",
            port,
            earliest_ns=since_ns,
            at_ns=reading.at_ns,
            source=SOURCE,
            origin=self._origin,
            data=InterfaceData(present=reading.present),
        )
        for call in self.on_presence:
            call(port, reading)

    def _tell_carrier(
        self, port: str, reading: LinkReading, mark: Mark, *, was: bool, changes: int, since_ns: int
    ) -> bool:
        """Report a change of the carrier; returns whether there was any."""
        differs = was != reading.carrier
        unseen = max(0, changes - differs)
        if port in self._tallies:
            falls = (unseen + differs + was) // 2  # each second change is a fall
            self._tallies[port].look(reading.at_ns, reading.carrier if reading.present else None, lost=falls)
            if not reading.present:
                self._tallies[port].fail(self._why_missing(port))
        if not differs and not unseen:
            return False
        self._emit(
            "carrier",
            port,
            earliest_ns=since_ns if reading.earliest_ns is None else reading.earliest_ns,
            at_ns=reading.at_ns,
            source=SOURCE,
            origin=self._origin,
            data=CarrierData(carrier=reading.carrier, carrier_changes=reading.carrier_changes, unseen=unseen),
            marks={_mark_name(reading.interface): mark},
        )
        return True

    def _why_missing(self, port: str) -> str:
        interface = next(interface for interface, name in self._ports.items() if name == port)
        if why := self._sources.link_note().why_not:
            return why
        last = self._readings.get(port)
        now = None if last is None else self._names.get(last.ifindex)
        if now is not None and now != interface:
            return (
                f"there is no interface {interface}: it is now called {now}. "
                "Use that name in the agent's file, or rename the interface"
            )
        return f"there is no interface {interface}"


def _mark_name(interface: str) -> str:
    return f"link:{interface}"


def _mark(reading: LinkReading, life: str) -> Mark:
    return {
        "life": life,
        "ifindex": reading.ifindex,
        "changes": reading.carrier_changes,
        "carrier": reading.carrier,
        "at_ns": reading.at_ns,
        "held_ns": reading.at_ns if reading.earliest_ns is None else reading.earliest_ns,
    }


def _held_ns(mark: Mark) -> int:
    """When the state of a mark was certain. Its end may already have been reported, unread, at its stamp. Older agents
    did not store this time.
    """
    return int(mark["held_ns"] if "held_ns" in mark else mark["at_ns"])
