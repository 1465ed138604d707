"""A desk of leases: leases and requests over records in memory."""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

import pytest

from hwd.ports.ledger import Asker, Ledger
from hwd.ports.rules import PortAction
from hwd.reconfigure.leases.ends import LeaseEnds
from hwd.reconfigure.leases.leases import Leases
from hwd.reconfigure.leases.requests import LeaseRequests
from hwd.records.records import Records
from hwd.sim.records_disk import RecordsDisk
from hwd_drivers.core.documents import Document, Sink
from hwd_drivers.core.ids import SeededIds
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop

F = TypeVar("F")
S = 10**9


class Desk:
    """`restart` is the daemon's next life, over the same records. `hear` hears of all that is told."""

    def __init__(self, hear: Sink = lambda document: None) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock = VirtualClock(loop, wall_start_ns=1_800_000_000 * S)
        self.disk = RecordsDisk()
        self.records = Records("sqlite://", self.disk)
        self.told: list[Document] = []
        self._hear = hear
        self._ids = SeededIds(3)
        self._running: list[asyncio.Task[None]] = []

    async def restart(self) -> Leases:
        await self.stop()
        ledger, store = Ledger(), self.records.leases
        self.ends = LeaseEnds(ledger)
        self.leases = Leases(ledger, store=store, clock=self.clock, ids=self._ids, sink=self._tell)
        self.requests = LeaseRequests(self.leases, store=store, clock=self.clock, sink=self._tell)
        await self.leases.load()
        await self.requests.load()
        self._running = [asyncio.create_task(work()) for work in (self.leases.run, self.requests.run)]
        return self.leases

    async def stop(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def live(self, seconds: float, *clients: str) -> None:
        """Let time pass, while these clients ask every second."""
        for _ in range(round(seconds)):
            for id in clients:
                self.requests.heartbeat(id)
                if self.leases.record(id) is not None:
                    await self.leases.heartbeat(id)
            await asyncio.sleep(1)

    @property
    def running(self) -> bool:
        return not any(task.done() for task in self._running)

    def check(self, *ports: str, lease: str | None = None) -> None:
        now_ns = self.clock.wall_ns()
        self.leases.ledger.check(Asker(lease=lease), ports, PortAction.CHANGE, now_wall_ns=now_ns)

    def holders(self) -> list[str]:
        return [one.owner for one in self.leases.all()]

    def in_s(self, seconds: float) -> int:
        return self.clock.wall_ns() + round(seconds * S)

    def kinds(self) -> list[tuple[str, object]]:
        return [(one.kind, getattr(one.fact, "why", "")) for one in self.told]

    def facts(self, kind: type[F]) -> list[F]:
        return [document.fact for document in self.told if isinstance(document.fact, kind)]

    def _tell(self, document: Document) -> None:
        self.told.append(document)
        self.ends(document)
        self._hear(document)


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    one = Desk()
    await one.records.open()
    await one.restart()
    yield one
    await one.stop()
    one.records.close()
