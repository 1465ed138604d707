"""The leases in the records, those that are not granted yet too: they survive a restart of the daemon."""

import json
from typing import Any

import sqlalchemy as sa

from hwd.model.link import SwitchCrossconnect
from hwd.ports.claim import lease
from hwd.ports.lease_record import LeaseRecord
from hwd.ports.lease_request import LeaseRequest
from hwd.records.store import put_row, row_of
from hwd.records.store_access import Access
from hwd.records.tables import about, lease_requests, leases
from hwd_drivers.core.structs import from_json, to_json

EPOCH = "lease_epoch"
"""The key of the highest epoch that was ever granted. A lease that is deleted takes its own with it."""


class LeaseTable:
    """Leases that were saved and not deleted, expired ones too; and requests for leases."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def all(self) -> tuple[LeaseRecord, ...]:
        """Oldest first."""

        def read(connection: sa.Connection) -> tuple[LeaseRecord, ...]:
            return tuple(
                LeaseRecord(
                    claim=lease(
                        id=row.id,
                        holder=row.holder,
                        ports=frozenset(json.loads(row.ports)),
                        taken_wall_ns=row.taken_wall_ns,
                        expires_wall_ns=row.expires_wall_ns,
                        epoch=row.epoch,
                    ),
                    heartbeat_s=row.heartbeat_s,
                    claim_within_s=row.claim_within_s,
                    baseline=from_json(row.baseline, dict[str, tuple[SwitchCrossconnect, ...]]),
                )
                for row in connection.execute(sa.select(leases).order_by(leases.c.taken_wall_ns, leases.c.id))
            )

        return await self._access.read("read leases", read)

    async def requests(self) -> tuple[LeaseRequest, ...]:
        """Read the requests in the order in which they came."""

        def read(connection: sa.Connection) -> tuple[LeaseRequest, ...]:
            rows = connection.execute(sa.select(lease_requests).order_by(lease_requests.c.number)).mappings()
            return tuple(LeaseRequest(**{**row, "ports": frozenset(json.loads(row["ports"]))}) for row in rows)

        return await self._access.read("read requests for leases", read)

    async def epoch(self) -> int:
        """The highest epoch that was ever granted; 0 before the first."""
        return await self._access.read("read the epoch of leases", _epoch_of)

    async def save(self, record: LeaseRecord, *, follows: str | None = None) -> None:
        """Insert a lease, or replace the stored one; a request of its id is granted by it, and is deleted.

        `follows`: the lease that ended and that it follows, which is deleted at once with it.
        """
        claim = record.claim
        row = {
            "id": claim.id,
            "holder": claim.owner,
            "ports": _text(sorted(claim.ports)),
            "taken_wall_ns": claim.since_wall_ns,
            "expires_wall_ns": claim.expires_wall_ns,
            "epoch": claim.epoch or 0,
            "heartbeat_s": record.heartbeat_s,
            "claim_within_s": record.claim_within_s,
            "baseline": _text(record.baseline),
        }

        def save(connection: sa.Connection) -> None:
            connection.execute(sa.delete(leases).where(leases.c.id.in_([claim.id, follows or claim.id])))
            connection.execute(sa.insert(leases), [row])
            connection.execute(sa.delete(lease_requests).where(lease_requests.c.id == claim.id))
            _note_epoch(connection, claim.epoch or 0)

        await self._access.write("save a lease", save)

    async def raise_epoch(self, epoch: int) -> None:
        """Note an epoch that was granted to a lease that is not saved."""
        await self._access.write("save the epoch of a lease", lambda connection: _note_epoch(connection, epoch))

    async def save_request(self, request: LeaseRequest) -> None:
        """Insert a request."""
        row = row_of(lease_requests, request, ports=_text(sorted(request.ports)))
        insert = sa.insert(lease_requests).values(**row)
        await self._access.write("save a request for a lease", lambda connection: connection.execute(insert))

    async def delete(self, id: str) -> None:
        """Delete a lease, or a request for one; no error where there is none."""

        def delete(connection: sa.Connection) -> None:
            connection.execute(sa.delete(leases).where(leases.c.id == id))
            connection.execute(sa.delete(lease_requests).where(lease_requests.c.id == id))

        await self._access.write(f"delete lease {id}", delete)


def _text(value: Any) -> str:
    return to_json(value).decode()


def _epoch_of(connection: sa.Connection) -> int:
    return int(connection.scalar(sa.select(about.c.value).where(about.c.key == EPOCH)) or 0)


def _note_epoch(connection: sa.Connection, epoch: int) -> None:
    if epoch > _epoch_of(connection):
        put_row(connection, about, {"key": EPOCH, "value": str(epoch)})
