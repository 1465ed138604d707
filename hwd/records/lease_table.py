"""The leases in the records: they survive a restart of the daemon."""

import json

import msgspec
import sqlalchemy as sa

from hwd.ports.claim import Claim, lease
from hwd.records.store_access import Access
from hwd.records.tables import leases


class LeaseTable:
    """Leases that were saved and not deleted, expired ones too."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._store = access.store

    async def all(self) -> tuple[Claim, ...]:
        """Oldest first."""
        return await self._access.read(self._all)

    async def save(self, claim: Claim) -> None:
        """Insert a lease, or replace the stored claim."""
        await self._access.write(self._save, claim)

    async def delete(self, id: str) -> None:
        """Delete a lease; no error where there is none."""
        await self._access.write(self._delete, id)

    # --- blocking, in the offload

    def _all(self) -> tuple[Claim, ...]:
        with self._store.transaction("read leases") as connection:
            return tuple(
                lease(
                    id=row.id,
                    holder=row.holder,
                    ports=frozenset(json.loads(row.ports)),
                    taken_wall_ns=row.taken_wall_ns,
                    expires_wall_ns=row.expires_wall_ns,
                )
                for row in connection.execute(sa.select(leases).order_by(leases.c.taken_wall_ns, leases.c.id))
            )

    def _save(self, claim: Claim) -> None:
        row = {
            "id": claim.id,
            "holder": claim.owner,
            "ports": msgspec.json.encode(sorted(claim.ports)).decode(),
            "taken_wall_ns": claim.since_wall_ns,
            "expires_wall_ns": claim.expires_wall_ns,
        }
        with self._store.transaction("save a lease") as connection:
            connection.execute(sa.delete(leases).where(leases.c.id == claim.id))
            connection.execute(sa.insert(leases), [row])

    def _delete(self, id: str) -> None:
        with self._store.transaction(f"delete lease {id}") as connection:
            connection.execute(sa.delete(leases).where(leases.c.id == id))
