"""Delegations in the records: a restarted daemon knows which epochs it has granted, and grants none of them twice."""

import sqlalchemy as sa

from hwd.ports.delegation import Delegation, DelegationState
from hwd.records.store_access import Access
from hwd.records.tables import delegations


class DelegationTable:
    """One row a switch: the last epoch and its holder."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._store = access.store

    async def all(self) -> tuple[Delegation, ...]:
        return await self._access.read(self._all)

    async def save(self, delegation: Delegation) -> None:
        """Durable when it returns."""
        await self._access.write(self._save, delegation)

    # --- blocking, in the offload

    def _all(self) -> tuple[Delegation, ...]:
        with self._store.transaction("read the delegated leases") as connection:
            return tuple(
                Delegation(
                    switch=row.switch,
                    host=row.host,
                    boot=row.boot,
                    epoch=row.epoch,
                    state=DelegationState(row.state),
                    since_wall_ns=row.since_wall_ns,
                    why=row.why,
                )
                for row in connection.execute(sa.select(delegations).order_by(delegations.c.switch))
            )

    def _save(self, one: Delegation) -> None:
        row = {
            "switch": one.switch,
            "host": one.host,
            "boot": one.boot,
            "epoch": one.epoch,
            "state": str(one.state),
            "since_wall_ns": one.since_wall_ns,
            "why": one.why,
        }
        with self._store.transaction(f"keep the delegated lease of {one.switch}") as connection:
            connection.execute(sa.delete(delegations).where(delegations.c.switch == one.switch))
            connection.execute(sa.insert(delegations), [row])
