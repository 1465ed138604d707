"""The runs in the records: those that began, with their ends."""

import json
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from msgspec import UNSET
from msgspec.structs import replace

from hwd.model.recorded_run import Run, RunOutcome, RunSummary
from hwd.records.store import row_of
from hwd.records.store_access import Access
from hwd.records.tables import documents, queue, runs
from hwd_drivers.core.errors import BugError, ConfigError, UnknownError
from hwd_drivers.core.structs import from_plain, to_json

RunT = TypeVar("RunT", bound=RunSummary)

LONG_COLUMNS: Final = frozenset({"playbook_text", "testbed_text", "inventory"})
"""Columns that a list of runs omits: some tens of kilobytes each."""
JSON_COLUMNS: Final = frozenset({"parameters", "inventory", "trial"})


class RunTable:
    """One row a run. `name`: of the records, for messages."""

    def __init__(self, access: Access, name: str) -> None:
        self._access = access
        self._name = name

    async def start(self, run: Run) -> None:
        """Record the start of a run and remove it from the queue."""
        encoded = {
            name: None if (value := getattr(run, name)) is UNSET else to_json(value).decode() for name in JSON_COLUMNS
        }
        row = row_of(runs, run, commit_id=run.commit, **encoded)

        def start(connection: sa.Connection) -> None:
            connection.execute(sa.delete(queue).where(queue.c.id == run.id))
            connection.execute(sa.insert(runs), [row])

        await self._access.write(f"start run {run.id}", start)

    async def end(
        self, id: str, *, outcome: RunOutcome, why: str, ended_wall_ns: int, safe_state: str | None = None
    ) -> None:
        """Raises BugError where the run is not under way; a repetition of the same end, whose answer was
        lost, is no error.
        """
        ended = {"outcome": str(outcome), "why": why, "ended_wall_ns": ended_wall_ns, "safe_state": safe_state}

        def end(connection: sa.Connection) -> None:
            changed = connection.execute(
                sa.update(runs).where(runs.c.id == id, runs.c.outcome.is_(None)).values(**ended)
            )
            if changed.rowcount == 1:
                return
            there = connection.execute(sa.select(*(runs.c[name] for name in ended)).where(runs.c.id == id)).first()
            if there is None or tuple(there) != tuple(ended.values()):
                raise BugError(f"run {id}: ended as {outcome}, and is not under way in {self._name}")

        await self._access.write_as_last_resort(f"end run {id}", end)

    async def settle(self, id: str, safe_state: str) -> bool:
        """Record the state of the switches of a run that ended without knowing it; False while that
        end is not written.
        """
        ended = sa.update(runs).where(runs.c.id == id, runs.c.outcome.is_not(None)).values(safe_state=safe_state)
        return await self._access.write(f"settle run {id}", lambda connection: connection.execute(ended).rowcount > 0)

    async def crashed(self, now_wall_ns: int) -> tuple[Run, ...]:
        """Read the runs without an end at a start, as ended by the daemon's crash, oldest first. Nothing is written."""
        last_wall_ns = (
            sa.select(sa.func.max(documents.c.wall_ns)).where(documents.c.run == runs.c.id).scalar_subquery()
        ).label("heard")
        query = (
            sa.select(runs, last_wall_ns).where(runs.c.outcome.is_(None)).order_by(runs.c.started_wall_ns, runs.c.id)
        )

        def read(connection: sa.Connection) -> tuple[Run, ...]:
            return tuple(
                replace(
                    _run_of(row, Run),
                    outcome=RunOutcome.CRASHED,
                    why="the daemon ended under it",
                    ended_wall_ns=now_wall_ns if row["heard"] is None else row["heard"],
                )
                for row in connection.execute(query).mappings()
            )

        return await self._access.read("find crashed runs", read)

    async def newest(self, *, limit: int | None = None, before: str | None = None) -> tuple[RunSummary, ...]:
        """Newest first, without their texts and inventories. `before`: the id of a run; only older ones.
        Raises UnknownError.
        """
        began = runs.c.started_wall_ns

        def read(connection: sa.Connection) -> tuple[RunSummary, ...]:
            query = sa.select(*(column for column in runs.c if column.name not in LONG_COLUMNS))
            query = query.order_by(began.desc(), runs.c.id).limit(limit)
            if before is not None:
                at = connection.scalar(sa.select(began).where(runs.c.id == before))
                if at is None:
                    raise UnknownError(f"run {before!r}: not in the records. `hwd runs` lists them")
                query = query.where((began < at) | ((began == at) & (runs.c.id > before)))
            return tuple(_run_of(row, RunSummary) for row in connection.execute(query).mappings())

        return await self._access.read("list the runs", read)

    async def get(self, id: str) -> Run:
        """Read a run by its id or a prefix of it; raises UnknownError where that fits none, ConfigError where it fits
        several.
        """
        starts = sa.func.substr(runs.c.id, 1, len(id)) == id
        query = sa.select(runs).where(starts).order_by(runs.c.started_wall_ns.desc())

        def read(connection: sa.Connection) -> list[Run]:
            return [_run_of(row, Run) for row in connection.execute(query).mappings()] if id else []

        found = await self._access.read(f"find run {id}", read)
        match [run for run in found if run.id == id] or found:
            case [run]:
                return run
            case []:
                raise UnknownError(f"run {id!r}: not in the records. `hwd runs` lists them")
            case several:
                named = ", ".join(run.id for run in several[:5]) + (" ..." if len(several) > 5 else "")
                raise ConfigError(f"run {id!r}: {len(several)} runs start so ({named}). Write more of it")


def _run_of(row: Mapping[Any, Any], kind: type[RunT]) -> RunT:
    known = {str(name): value for name, value in row.items() if value is not None}
    texts = {name: json.loads(known[name]) for name in JSON_COLUMNS & known.keys()}
    return from_plain({**known, **texts, "commit": row["commit_id"]}, kind)
