"""Hosts that have claimed transfers: after a restart the daemon knows whose reports to wait for."""

import sqlalchemy as sa

from hwd.records.store_access import Access
from hwd.records.tables import transfer_hosts


class TransferTable:
    """One row a host, written before its first claim is answered and never again."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._store = access.store

    async def hosts(self) -> frozenset[str]:
        return await self._access.read(self._hosts)

    async def note(self, host: str) -> None:
        """Durable when it returns."""
        await self._access.write(self._note, host)

    # --- blocking, in the offload

    def _hosts(self) -> frozenset[str]:
        with self._store.transaction("read the hosts that claim transfers") as connection:
            return frozenset(connection.execute(sa.select(transfer_hosts.c.host)).scalars())

    def _note(self, host: str) -> None:
        with self._store.transaction(f"note that {host} claims transfers") as connection:
            connection.execute(sa.delete(transfer_hosts).where(transfer_hosts.c.host == host))
            connection.execute(sa.insert(transfer_hosts), [{"host": host}])
