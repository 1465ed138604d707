"""Access to a store from the event loop: one writer at a time, readers beside it."""

import asyncio
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from hwd.records.finish import to_its_end
from hwd.records.store import Store
from hwd_drivers.core.offload import Offload

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Access:
    """Calls what blocks in an offload. What has begun to write is ended, whoever is cancelled."""

    def __init__(self, store: Store, offload: Offload) -> None:
        self.store = store
        self._offload = offload
        self._writing = asyncio.Lock()

    async def write(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        async with self._writing:
            return await to_its_end(self._offload(fn, *args), name="hwd:records/write")

    async def read(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        if self.store.in_memory:  # its one connection
            return await self.write(fn, *args)
        return await self._offload(fn, *args)
