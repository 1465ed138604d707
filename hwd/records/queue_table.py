"""The queue of runs in the records: it survives a restart of the daemon."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from msgspec import UNSET, UnsetType

from hwd.model.run import TrialRun
from hwd.records.store import row_of
from hwd.records.store_access import Access
from hwd.records.tables import queue
from hwd_drivers.core.structs import from_json, to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRun:
    """A run that has not begun, with all that its start needs, also after a restart. `due_wall_ns` None: as soon as its
    ports are free.
    """

    id: str
    playbook: str
    playbook_text: str
    file: str
    parameters: Mapping[str, str]
    queued_wall_ns: int
    due_wall_ns: int | None = None
    trial: TrialRun | UnsetType = UNSET


class QueueTable:
    """Runs that have not begun. `RunTable.start` removes the run that it begins, in one transaction."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def all(self) -> tuple[QueuedRun, ...]:
        """Read the queued runs in the order in which they were queued."""
        query = sa.select(*(column for column in queue.c if column is not queue.c.number)).order_by(queue.c.number)

        def read(connection: sa.Connection) -> tuple[QueuedRun, ...]:
            return tuple(
                QueuedRun(
                    **{
                        **row,
                        "parameters": json.loads(row["parameters"]),
                        "trial": UNSET if row["trial"] is None else from_json(row["trial"], TrialRun),
                    }
                )
                for row in connection.execute(query).mappings()
            )

        return await self._access.read("read the queue", read)

    async def add(self, run: QueuedRun) -> None:
        trial = None if run.trial is UNSET else to_json(run.trial).decode()
        insert = sa.insert(queue).values(**row_of(queue, run, parameters=to_json(run.parameters).decode(), trial=trial))
        await self._access.write(f"queue run {run.id}", lambda connection: connection.execute(insert))
