"""The leases in the records: they survive a restart of the daemon."""

import json

import msgspec
import sqlalchemy as sa

from hwd.ports.lease import Lease
from hwd.records.store_access import Access
from hwd.records.tables import leases


class LeaseTable:
    """Leases that were saved and not deleted, expired ones too."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._store = access.store

    async def all(self) -> tuple[Lease, ...]:
        """Oldest first."""
        return await self._access.read(self._all)

    async def save(self, lease: Lease) -> None:
        """Insert a lease, or replace the stored one."""
        await self._access.write(self._save, lease)

    async def delete(self, id: str) -> None:
        """Delete a lease; no error where there is none."""
        await self._access.write(self._delete, id)

    # --- blocking, in the offload

    def _all(self) -> tuple[Lease, ...]:
        with self._store.transaction("read leases") as connection:
            return tuple(
                Lease(
                    id=row.id,
                    holder=row.holder,
                    ports=frozenset(json.loads(row.ports)),
                    taken_wall_ns=row.taken_wall_ns,
                    expires_wall_ns=row.expires_wall_ns,
                )
                for row in connection.execute(sa.select(leases).order_by(leases.c.taken_wall_ns, leases.c.id))
            )

    def _save(self, lease: Lease) -> None:
        row = {
            "id": lease.id,
            "holder": lease.holder,
            "ports": msgspec.json.encode(sorted(lease.ports)).decode(),
            "taken_wall_ns": lease.taken_wall_ns,
            "expires_wall_ns": lease.expires_wall_ns,
        }
        with self._store.transaction("save a lease") as connection:
            connection.execute(sa.delete(leases).where(leases.c.id == lease.id))
            connection.execute(sa.insert(leases), [row])

    def _delete(self, id: str) -> None:
        with self._store.transaction(f"delete lease {id}") as connection:
            connection.execute(sa.delete(leases).where(leases.c.id == id))
