"""The stored demands in the records: they stay until somebody removes them, within bounds of number and size."""

import struct

import sqlalchemy as sa

from hwd.model.demand import ALL_BYTES_MAX, DEMANDS_MAX, DemandKey, DemandMatrix, DemandSummary, NewDemand
from hwd.records.store import row_of
from hwd.records.store_access import Access
from hwd.records.tables import demand_matrices, demands
from hwd_drivers.core.errors import RefusedError, UnknownError
from hwd_drivers.core.structs import from_json, to_json


class DemandTable:
    """The demands by name, each with its matrices by layer and micro-batch."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def all(self) -> tuple[DemandSummary, ...]:
        """Read the demands in the order of their names."""

        def read(connection: sa.Connection) -> tuple[DemandSummary, ...]:
            found = connection.scalars(sa.select(demands.c.data).order_by(demands.c.name))
            return tuple(from_json(text, DemandSummary) for text in found)

        return await self._access.read("read demands", read)

    async def matrix(self, key: DemandKey) -> DemandMatrix:
        """Raises UnknownError."""
        return await self._access.read("read a demand", lambda connection: _matrix(connection, key))

    async def add(self, demand: NewDemand, *, replace: bool = False) -> DemandSummary:
        """Insert a demand with all its matrices. Raises RefusedError where there is one of its name, unless `replace`,
        and where it would be more than is kept.
        """
        attempt = f"add demand {demand.name}"
        return await self._access.write(attempt, lambda connection: _add(connection, demand, replace))

    async def remove(self, name: str) -> DemandSummary:
        """Raises UnknownError."""

        def remove(connection: sa.Connection) -> DemandSummary:
            summary = _summary(connection, name)
            _delete(connection, name)
            return summary

        return await self._access.write(f"remove demand {name}", remove)


def _matrix(connection: sa.Connection, key: DemandKey) -> DemandMatrix:
    summary = _summary(connection, key.name)
    one = connection.scalar(
        sa.select(demand_matrices.c.data).where(
            demand_matrices.c.demand == key.name,
            demand_matrices.c.layer == key.layer,
            demand_matrices.c.microbatch == key.microbatch,
        )
    )
    if one is None:
        raise UnknownError(
            f"{key}: not stored; it has layers {_numbers(summary.layers)} and micro-batches "
            f"{_numbers(summary.microbatches)}"
        )
    size = len(summary.hosts)
    cells = struct.unpack(f"<{size * size}d", one)
    return DemandMatrix(
        name=key.name,
        layer=key.layer,
        microbatch=key.microbatch,
        hosts=summary.hosts,
        bytes=[[*cells[start : start + size]] for start in range(0, size * size, size)],
    )


def _add(connection: sa.Connection, demand: NewDemand, replace: bool) -> DemandSummary:
    summary = demand.summary
    taken = connection.scalar(sa.select(sa.func.count()).where(demands.c.name == demand.name))
    if taken and not replace:
        raise RefusedError(
            f"demand {demand.name}: there is one of that name. Choose another, or use --replace (replace=true)"
        )
    _delete(connection, demand.name)
    stored_bytes = sa.func.coalesce(sa.func.sum(demands.c.stored_bytes), 0)
    count, size = connection.execute(sa.select(sa.func.count(), stored_bytes).select_from(demands)).one()
    if count >= DEMANDS_MAX or size + summary.stored_bytes > ALL_BYTES_MAX:
        raise RefusedError(
            f"demand {demand.name}: {count} others have {size / 1e6:.1f} MB, and this one has "
            f"{summary.stored_bytes / 1e6:.1f} MB; {DEMANDS_MAX} are kept, with "
            f"{ALL_BYTES_MAX / 1e6:.1f} MB in all. `hwd demand remove` makes room"
        )
    connection.execute(sa.insert(demands), [row_of(demands, summary, data=to_json(summary).decode())])
    matrices = [
        {"demand": demand.name, "layer": layer, "microbatch": microbatch, "data": data}
        for (layer, microbatch), data in demand.matrices.items()
    ]
    connection.execute(sa.insert(demand_matrices), matrices)
    return summary


def _summary(connection: sa.Connection, name: str) -> DemandSummary:
    text = connection.scalar(sa.select(demands.c.data).where(demands.c.name == name))
    if text is None:
        raise UnknownError(f"demand {name!r}: not stored. `hwd demand list` says which are, `hwd demand add` adds one")
    return from_json(text, DemandSummary)


def _delete(connection: sa.Connection, name: str) -> None:
    connection.execute(sa.delete(demand_matrices).where(demand_matrices.c.demand == name))
    connection.execute(sa.delete(demands).where(demands.c.name == name))


def _numbers(numbers: list[int]) -> str:
    """`0 to 31`, or the first ones where some are missing."""
    if numbers == [*range(numbers[0], numbers[-1] + 1)]:
        return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers[:10])) + (" ..." if len(numbers) > 10 else "")
