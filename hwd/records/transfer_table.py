"""Hosts that have claimed transfers: after a restart the daemon knows whose reports to wait for."""

import sqlalchemy as sa

from hwd.records.store_access import Access
from hwd.records.tables import transfer_hosts


class TransferTable:
    """One row a host, written before its first claim is answered and never again."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def hosts(self) -> frozenset[str]:
        query = sa.select(transfer_hosts.c.host)
        return await self._access.read(
            "read the hosts that claim transfers", lambda connection: frozenset(connection.scalars(query))
        )

    async def note(self, host: str) -> None:
        """Durable when it returns."""
        await self._access.put(f"note that {host} claims transfers", transfer_hosts, {"host": host})
