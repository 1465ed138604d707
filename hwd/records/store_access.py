"""Access to a store from the event loop: one writer at a time, and readers at the same time."""

import asyncio
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from hwd.records.finish import to_its_end
from hwd.records.store import Store
from hwd_drivers.core.offload import Offload

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Access:
    """Runs blocking calls in an offload. A write that has begun is completed, even when its caller is cancelled."""

    def __init__(self, store: Store, offload: Offload) -> None:
        self.store = store
        self._offload = offload
        self._writing = asyncio.Lock()

    async def write(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        async with self._writing:
            return await to_its_end(self._offload(fn, *args), name="hwd:records/write")

    async def read(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        if self.store.in_memory:  # it has one connection only
            return await self.write(fn, *args)
        return await self._offload(fn, *args)
