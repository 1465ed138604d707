"""The queue of runs in the records: it survives a restart of the daemon."""

import json

import sqlalchemy as sa
from msgspec import UNSET

from hwd.model.run import TrialRun
from hwd.records.queued_run import QueuedRun
from hwd.records.store_access import Access
from hwd.records.tables import queue
from hwd_drivers.core.structs import from_json, to_json


class QueueTable:
    """Runs that have not begun. `Records.start_run` removes the run that it begins, in one transaction."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._store = access.store

    async def all(self) -> tuple[QueuedRun, ...]:
        """Read the queued runs in the order in which they were queued."""
        return await self._access.read(self._all)

    async def add(self, run: QueuedRun) -> None:
        await self._access.write(self._add, run)

    # --- blocking, in the offload

    def _all(self) -> tuple[QueuedRun, ...]:
        with self._store.transaction("read the queue") as connection:
            return tuple(
                QueuedRun(
                    id=row.id,
                    playbook=row.playbook,
                    playbook_text=row.playbook_text,
                    file=row.file,
                    parameters=json.loads(row.parameters),
                    queued_wall_ns=row.queued_wall_ns,
                    due_wall_ns=row.due_wall_ns,
                    trial=UNSET if row.trial is None else from_json(row.trial, TrialRun),
                )
                for row in connection.execute(sa.select(queue).order_by(queue.c.number))
            )

    def _add(self, run: QueuedRun) -> None:
        row = {
            "id": run.id,
            "playbook": run.playbook,
            "playbook_text": run.playbook_text,
            "file": run.file,
            "parameters": to_json(run.parameters).decode(),
            "queued_wall_ns": run.queued_wall_ns,
            "due_wall_ns": run.due_wall_ns,
            "trial": None if run.trial is UNSET else to_json(run.trial).decode(),
        }
        with self._store.transaction(f"queue run {run.id}") as connection:
            connection.execute(sa.insert(queue), [row])
