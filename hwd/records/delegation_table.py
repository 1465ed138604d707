"""Delegations in the records: a restarted daemon knows which epochs it has granted, and grants none of them twice."""

import sqlalchemy as sa

from hwd.ports.delegation import Delegation, DelegationState
from hwd.records.store import row_of
from hwd.records.store_access import Access
from hwd.records.tables import delegations


class DelegationTable:
    """One row a switch: the last epoch and its holder."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def all(self) -> tuple[Delegation, ...]:
        def read(connection: sa.Connection) -> tuple[Delegation, ...]:
            rows = connection.execute(sa.select(delegations).order_by(delegations.c.switch)).mappings()
            return tuple(Delegation(**{**row, "state": DelegationState(row["state"])}) for row in rows)

        return await self._access.read("read the delegated leases", read)

    async def save(self, one: Delegation) -> None:
        """Durable when it returns."""
        row = row_of(delegations, one, state=str(one.state))
        await self._access.put(f"keep the delegated lease of {one.switch}", delegations, row)
