"""Gaps: up to where documents outside of runs were deleted from the records, and why."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec
import sqlalchemy as sa

from hwd.model.daemon import DaemonRecovered, JournalGivenUp, TestbedReloaded
from hwd.model.reconfiguration import ReconfigurationEnded, ReconfigurationStarted
from hwd.model.switch import SwitchAdopted
from hwd.model.transfer import TransferCut
from hwd.records.store import put_row
from hwd.records.store_access import Access
from hwd.records.tables import about, documents
from hwd_drivers.core.structs import from_json, to_json

HISTORY: Final = frozenset(
    fact.KIND
    for fact in (
        ReconfigurationStarted,
        ReconfigurationEnded,
        DaemonRecovered,
        JournalGivenUp,
        SwitchAdopted,
        TestbedReloaded,
        TransferCut,
    )
)
"""The kinds of documents that say who changed what, and what that cut."""


class DocumentGroup(StrEnum):
    """Documents outside of runs that are retained for equally long."""

    DOCUMENTS = "documents"
    """The documents that are not of the history."""
    HISTORY = "history"
    """The documents that `hwd history` and `hwd rollback --to` read, and transfers that were cut."""

    @classmethod
    def of(cls, kind: str) -> "DocumentGroup":
        return cls.HISTORY if kind in HISTORY else cls.DOCUMENTS

    @property
    def has(self) -> sa.ColumnElement[bool]:
        """The condition of its documents."""
        of_history = documents.c.kind.in_(sorted(HISTORY))
        return of_history if self is DocumentGroup.HISTORY else ~of_history


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Documents of a group that have an id up to `upto` and belong to no run may be missing.

    `wall_ns`: the unix time of the newest that was deleted. `why`: `older than the retention of 90 days`.
    """

    upto: int
    wall_ns: int
    why: str


class GapTable:
    """Gaps as they are stored with the deletion that made them."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def all(self) -> Mapping[DocumentGroup, Gap]:
        """A group of which nothing was deleted is left out."""

        def read(connection: sa.Connection) -> Mapping[DocumentGroup, Gap]:
            found = {group: read_gap(connection, group) for group in DocumentGroup}
            return {group: gap for group, gap in found.items() if gap is not None}

        return await self._access.read("read up to where documents were deleted", read)


def read_gap(connection: sa.Connection, group: DocumentGroup) -> Gap | None:
    text = connection.scalar(sa.select(about.c.value).where(about.c.key == _key(group)))
    return None if text is None else from_json(text, Gap)


def put_gap(connection: sa.Connection, group: DocumentGroup, gap: Gap) -> None:
    """Store it, in the transaction that deletes the documents; a gap never shrinks."""
    before = read_gap(connection, group)
    if before is None or before.upto < gap.upto:
        put_row(connection, about, {"key": _key(group), "value": to_json(gap).decode()})


def _key(group: DocumentGroup) -> str:
    return f"gap.{group}"
