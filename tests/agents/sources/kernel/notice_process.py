"""One link watcher over a spool, killed at its so many-th notice of a changed carrier, before it could make the event:
`python notice_process.py KEEPER FOLDER BOOT NOTICES`; prints a line when its spool has its first mark.
"""

import asyncio
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from typing_extensions import override

from hwd_agents.process.config import AgentConfig, PortConfig, SamplingConfig
from hwd_agents.sources.kernel.rtnetlink import RtnetlinkLinks
from hwd_agents.sources.kernel.sockets import NamespaceSockets, Sockets
from hwd_agents.sources.kernel.timed_selector import TimedSelector
from hwd_agents.sources.kernel.udp import InterfaceDatagrams
from hwd_agents.sources.link_source import LinkReading, Origin
from hwd_agents.sources.sources import Sources
from hwd_agents.spool.lost_events import Stored
from hwd_agents.spool.outbox import Outbox
from hwd_agents.spool.spool import Spool
from hwd_agents.watchers.watchers import Watchers
from hwd_agents.wire import Event, SourceNote
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.disk import FileDisk

LIMIT_BYTES: Final = 1 << 22
_HERE: Final = SourceNote(sees=["carrier"], origin="measured")


class Life:
    """The link watcher of `eth0`, wired as in an agent, whose events nobody takes from the spool. After its first look
    it only listens.
    """

    def __init__(self, links: RtnetlinkLinks, sockets: Sockets, folder: Path, boot: str) -> None:
        clock = SystemClock()
        self.boot = boot
        self.looked = asyncio.Event()
        self._disk = FileDisk(folder / "events")
        self.spool = Spool(self._disk, boot=boot, clock=clock, limit_bytes=LIMIT_BYTES)
        outbox = Outbox(self.spool, is_up=lambda: False, publish=self._publish)
        sources = Sources(
            link=links,
            link_note=lambda: _HERE,
            datagrams=InterfaceDatagrams(sockets, clock),
            datagrams_note=lambda: _HERE,
            life=self._looked,
        )
        config = AgentConfig(
            testbed="lab",
            host="h0",
            broker="memory:",
            ports={"eth0": PortConfig(interface="eth0")},
            sampling=SamplingConfig(links_slow_s=0),
        )
        self.watchers = Watchers(
            config, sources, clock, outbox, self.spool, phase=random.Random(1), on_change=lambda: None
        )

    def close(self) -> None:
        """Give up the spool's file."""
        self.spool.flush()
        self._disk.close()

    def events(self) -> list[Event]:
        """The events of this life."""
        self.spool.flush()
        return [stored.event for stored in self.spool.batch(self.boot, after=0)]

    def _looked(self) -> str:
        """The link watcher asks with each reading."""
        self.looked.set()
        return "1"

    async def _publish(self, boot: str, events: list[Stored]) -> None:
        raise AssertionError("the bus is never up")


class FatalLinks(RtnetlinkLinks):
    """Kills its process at so many changes of a carrier, each of which it has received and decoded, and nobody else
    knows of yet.
    """

    def __init__(self, sockets: Sockets, selector: TimedSelector, *, notices: int) -> None:
        super().__init__(sockets, SystemClock(), selector=selector)
        self._left = notices
        self._carriers: dict[str, bool] = {}

    @override
    async def open(self, on_reading: Callable[[LinkReading], None]) -> None:
        def take(reading: LinkReading) -> None:
            changed = self._carriers.get(reading.interface, reading.carrier) != reading.carrier
            self._carriers[reading.interface] = reading.carrier
            if changed and reading.origin is Origin.NOTICE:
                self._left -= 1
                if self._left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            on_reading(reading)

        await super().open(take)


async def main(selector: TimedSelector, keeper: str, folder: str, boot: str, notices: str) -> None:
    sockets = NamespaceSockets(keeper, "h0")
    life = Life(FatalLinks(sockets, selector, notices=int(notices)), sockets, Path(folder), boot)
    watching = asyncio.create_task(life.watchers.link.run())
    written = asyncio.Event()
    life.spool.on_written = written.set
    await written.wait()
    sys.stdout.write("watching\n")
    sys.stdout.flush()
    await watching


if __name__ == "__main__":
    timed = TimedSelector(SystemClock())
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(timed)) as runner:
        runner.run(main(timed, *sys.argv[1:]))
