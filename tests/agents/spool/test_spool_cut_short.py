"""A spool that ends anywhere, since its agent was killed there: the next agent reports or counts each change once, by
the kernel's count.
"""

import asyncio
from collections.abc import Sequence

from hwd_agents.process.config import PortConfig, SamplingConfig
from hwd_agents.sources.link_source import LinkReading
from hwd_agents.spool.lost_events import StoredEvent
from hwd_agents.spool.outbox import Outbox
from hwd_agents.spool.spool import Spool
from hwd_agents.watchers.link_watcher import LinkWatcher
from hwd_agents.wire import Event
from hwd_drivers.core.disk import MemoryDisk

from ..conftest import Stage, stop

PORTS = ("eth0", "eth1")
CUT_EVERY_BYTES = 23
"""A frame takes some 500 bytes: several cuts in each, and at other places in the next."""


class Life:
    """A link watcher over a spool, as an agent has them; nobody takes the events. `readings` are those of notices."""

    def __init__(self, one: Stage, disk: MemoryDisk, boot: str) -> None:
        self.readings: list[LinkReading] = []
        self.spool = Spool(disk, boot=boot, clock=one.clock, limit_bytes=1 << 20)
        outbox = Outbox(self.spool, is_up=lambda: False, publish=self._publish)
        self._carriers = dict.fromkeys(PORTS, False)
        watcher = LinkWatcher(
            {port: PortConfig(interface=port) for port in PORTS},
            one.sources["h0"],
            one.clock,
            outbox.emit,
            marks=self.spool.marks,
            set_mark=outbox.mark,
            sampling=SamplingConfig(links_fast_s=0.25, links_slow_s=10),
            origin="twin",
        )
        watcher.on_carrier.append(self._changed)
        self.task = one.run(watcher)

    def _changed(self, port: str, reading: LinkReading) -> None:
        if self._carriers[port] != reading.carrier:
            self.readings.append(reading)
        self._carriers[port] = reading.carrier

    async def _publish(self, boot: str, events: list[StoredEvent]) -> None:
        raise AssertionError("the bus is never up")

    async def told(self) -> list[Event]:
        """After a look: all that its spool has."""
        await asyncio.sleep(0.1)
        await stop(self.task)
        self.spool.flush()
        return [stored.event for boot in self.spool.events for stored in self.spool.batch(boot, after=0)]


def check(told: Sequence[Event], stamps: dict[tuple[str, int], int], end_ns: int) -> dict[str, int]:
    """Each change is reported or counted once, and has its stamp if the spool has it. Returns how many of each port."""
    counts, carriers = dict.fromkeys(PORTS, 0), dict.fromkeys(PORTS, False)
    for event in told:
        port = event.port or ""
        changes, carrier = int(event.data["carrier_changes"]), bool(event.data["carrier"])
        assert changes - counts[port] == (carriers[port] != carrier) + int(event.data["unseen"]) > 0
        assert event.at_ns == stamps.get((port, changes)) or event.at_ns > end_ns
        counts[port], carriers[port] = changes, carrier
    return counts


async def test_wherever_the_spool_ends_each_change_is_told_or_counted_once(one: Stage) -> None:
    one.hosts["h0"].plug("eth1")
    await asyncio.sleep(0.01)
    disk = MemoryDisk()
    first = Life(one, disk, "b1")
    await asyncio.sleep(0.1)
    least = disk.size()
    made = dict.fromkeys(PORTS, 0)
    for number in range(12):
        for port, flaps in (("eth0", 0), ("eth1", 2 * (number % 3))):
            one.hosts["h0"].carrier(port, up=number % 2 == 0, flaps=flaps)
            made[port] += 1 + flaps
        await asyncio.sleep(0.01 * (number % 2))  # two of each come in one turn
    await asyncio.sleep(0.1)
    whole = await first.told()
    stamps = {(reading.interface, reading.carrier_changes): reading.at_ns for reading in first.readings}
    assert check(whole, stamps, one.now_ns()) == made
    assert len(whole) > 16
    data, end_ns = disk.read(), one.now_ns()
    for cut in range(least, len(data), CUT_EVERY_BYTES):
        left = MemoryDisk()
        left.append(data[:cut])
        assert check(await Life(one, left, "b2").told(), stamps, end_ns) == made
        assert check(await Life(one, left, "b3").told(), stamps, end_ns) == made
