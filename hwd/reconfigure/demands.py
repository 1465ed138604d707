"""Stored demands: files that callers send become matrices in the records, which topologies read by name."""

import asyncio
from dataclasses import dataclass

from hwd.config.testbed.wanted_state import stored_demand
from hwd.fabric.in_use import InUse
from hwd.mfabric.demand_file import DemandTerms, read_demand
from hwd.model.demand import DemandKey, DemandMatrix, DemandSummary, NewDemand, check_name
from hwd.model.request import Caller
from hwd.records.demand_table import DemandTable
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.offload import Offload

UNNAMED_CALLER = "a caller of the HTTP API"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddDemand:
    """A request to store a demand file. `replace`: also where there is one of this name. The others: `DemandTerms`."""

    name: str
    hosts: tuple[str, ...] = ()
    experts_per_gpu: int | None = None
    gpus_per_server: int | None = None
    replace: bool = False
    by: str | None = None


class Demands:
    """Reads one file at a time, in a thread: a long one takes seconds, and several must not take all threads."""

    def __init__(self, in_use: InUse, table: DemandTable, *, clock: Clock, offload: Offload) -> None:
        self._in_use = in_use
        self._table = table
        self._clock = clock
        self._offload = offload
        self._reading = asyncio.Lock()

    async def add(self, asked: AddDemand, data: bytes, caller: Caller | None) -> DemandSummary:
        """Store the demand of a file. Raises ConfigError with the place of what is wrong in it, RefusedError where its
        name is taken or there is no room; nothing is stored then.
        """
        check_name(asked.name)
        terms = DemandTerms(
            hosts=asked.hosts, experts_per_gpu=asked.experts_per_gpu, gpus_per_server=asked.gpus_per_server
        )
        by = str(Caller.of(caller, asked.by) or UNNAMED_CALLER)
        known = tuple(self._in_use.testbed.hosts)

        def read() -> NewDemand:
            found = read_demand(data, terms, known=known)
            return NewDemand(
                name=asked.name,
                by=by,
                added_wall_ns=self._clock.wall_ns(),
                hosts=found.hosts,
                experts=found.experts,
                matrices={key: matrix.astype("<f8").tobytes() for key, matrix in found.matrices.items()},
                total_bytes=float(sum(matrix.sum() for matrix in found.matrices.values())),
            )

        async with self._reading:
            return await self._table.add(await self._offload(read), replace=asked.replace)

    async def all(self) -> tuple[DemandSummary, ...]:
        """Read the demands in the order of their names."""
        return await self._table.all()

    async def matrix(self, key: DemandKey) -> DemandMatrix:
        """Raises UnknownError."""
        return await self._table.matrix(key)

    async def remove(self, name: str) -> DemandSummary:
        """Returns what it was. Raises UnknownError."""
        return await self._table.remove(name)

    async def of_text(self, what: str) -> DemandMatrix | None:
        """The demand that a topology of this text reads by name; None where it reads none. Raises ConfigError."""
        key = stored_demand(what)
        return None if key is None else await self._table.matrix(key)
