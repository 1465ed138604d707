"""One life of a link watcher over a spool, killed as soon as it has put down so many notices: `python notice_life.py KEEPER FOLDER BOOT NOTICES`; prints a line
when it has put down that it watches.
"""

import asyncio
import os
import random
import signal
import sys
from pathlib import Path
from typing import Final

from typing_extensions import override

from hwd_agents.process.agent_loop import AgentLoop
from hwd_agents.process.config import AgentConfig, PortConfig, SamplingConfig
from hwd_agents.sources.kernel.rtnetlink import RtnetlinkLinks
from hwd_agents.sources.kernel.sockets import NamespaceSockets, Sockets
from hwd_agents.sources.kernel.udp import InterfaceDatagrams
from hwd_agents.sources.sources import Sources
from hwd_agents.spool.notice_pad import NoticePad
from hwd_agents.spool.outbox import Outbox
from hwd_agents.spool.spool import Spool
from hwd_agents.watchers.watchers import Watchers
from hwd_agents.wire import Event, SourceNote
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.disk import FileDisk

LIMIT_BYTES: Final = 1 << 22
_HERE: Final = SourceNote(sees=["carrier"], origin="measured")


class Life:
    """The link watcher of `eth0`, wired as in an agent, whose events nobody takes from the spool. After its first look it only listens."""

    def __init__(self, sockets: Sockets, folder: Path, boot: str, pad: NoticePad, *, life: str = "1") -> None:
        clock = SystemClock()
        self.boot = boot
        self.looked = asyncio.Event()
        self._life = life
        self._disk = FileDisk(folder / "events")
        self.spool = Spool(self._disk, boot=boot, clock=clock, limit_bytes=LIMIT_BYTES)
        outbox = Outbox(self.spool, is_up=lambda: False, publish=self._publish)
        links = RtnetlinkLinks(sockets, clock)
        sources = Sources(
            link=links,
            notices=links,
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
            config, sources, clock, outbox, self.spool, phase=random.Random(1), on_change=lambda: None, pad=pad
        )

    def close(self) -> None:
        """Give up the spool's file."""
        self.spool.flush()
        self._disk.close()

    def told(self) -> list[Event]:
        """The events of this life."""
        self.spool.flush()
        return self.spool.batch(self.boot, after=0)

    def _looked(self) -> str:
        """The link watcher asks with each reading."""
        self.looked.set()
        return self._life

    async def _publish(self, boot: str, events: list[Event]) -> None:
        raise AssertionError("the bus is never up")


class FatalPad(NoticePad):
    """Kills its process once so many notices are down for good."""

    def __init__(self, path: Path, *, clock_name: str, notices: int) -> None:
        super().__init__(path, clock_name=clock_name)
        self._left = notices

    @override
    def keep(self) -> None:
        super().keep()
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


async def main(keeper: str, folder: str, boot: str, notices: str) -> None:
    pad = FatalPad(Path(folder) / "notices", clock_name="c", notices=int(notices))
    life = Life(NamespaceSockets(keeper, "h0"), Path(folder), boot, pad)
    watching = asyncio.create_task(life.watchers.link.run())
    written = asyncio.Event()
    life.spool.on_written = written.set
    await written.wait()
    sys.stdout.write("watching\n")
    sys.stdout.flush()
    await watching


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=AgentLoop) as runner:
        runner.run(main(*sys.argv[1:]))
