"""Access to a store from the event loop: one writer at a time, and readers at the same time."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar, TypeVarTuple

import sqlalchemy as sa

from hwd.records.finish import to_its_end
from hwd.records.reserve import Reserve
from hwd.records.store import Store, put_row
from hwd_drivers.core.errors import FailedError
from hwd_drivers.core.offload import Offload

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Access:
    """Runs transactions in an offload: each `attempt` is what errors say could not be done, each `work` gets the
    connection there. A write that has begun is completed, even when its caller is cancelled.
    """

    def __init__(self, store: Store, offload: Offload, reserve: Reserve | None) -> None:
        self._store = store
        self._offload = offload
        self._reserve = reserve
        self._writing = asyncio.Lock()

    async def open(self) -> None:
        """Open the store, with the room of the reserve where there is no other."""
        await self._alone(self._as_last_resort, self._store.open)

    async def read(self, attempt: str, work: Callable[[sa.Connection], T]) -> T:
        if self._store.in_memory:  # it has one connection only
            return await self.write(attempt, work)
        return await self._offload(self._store.run, attempt, work)

    async def write(self, attempt: str, work: Callable[[sa.Connection], T]) -> T:
        return await self._alone(self._store.run, attempt, work)

    async def write_and_reserve(self, attempt: str, work: Callable[[sa.Connection], T]) -> T:
        """Write, and then take the reserve again: there is room."""

        def write() -> T:
            written = self._store.run(attempt, work)
            if self._reserve is not None:
                self._reserve.hold()
            return written

        return await self._alone(write)

    async def write_as_last_resort(self, attempt: str, work: Callable[[sa.Connection], T]) -> T:
        """Write, with the room of the reserve where there is no other."""
        return await self._alone(self._as_last_resort, partial(self._store.run, attempt, work))

    async def put(self, attempt: str, table: sa.Table, row: Mapping[str, Any]) -> None:
        """Insert a row, in place of the one with its primary key."""
        await self.write(attempt, partial(put_row, table=table, row=row))

    async def _alone(self, write: Callable[[*Ts], T], *args: *Ts) -> T:
        async with self._writing:
            return await to_its_end(self._offload(write, *args), name="hwd:records/write")

    def _as_last_resort(self, write: Callable[[], T]) -> T:
        try:
            return write()
        except FailedError:
            if self._reserve is None or not self._reserve.release():
                raise
            written = write()
            self._reserve.hold()  # what is left of it, before documents use that
            return written
