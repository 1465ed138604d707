"""Finished runs, from a daemon or directly from a data directory: the same methods for both."""

import asyncio
import contextlib
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from hwd.cli.daemon import connect
from hwd.config.run_files.places import records_path
from hwd.model.local_time import date_and_time
from hwd.model.recorded_run import Run, RunSummary
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.structs import to_plain

if TYPE_CHECKING:
    from hwd.client import Client
    from hwd.records.records import Records
    from hwd.report.run_report import RunReport

PAGE = 32
"""Documents read at a time: some megabytes, since the timeline of a large rack alone is half a megabyte."""


class RunSource(Protocol):
    """A source of runs. A run is named by its `id` or a prefix of it."""

    def runs(self, limit: int) -> Sequence[RunSummary]:
        """The newest, without their texts and inventories."""
        ...

    def run(self, id: str) -> Run: ...

    def stream(self, id: str, kinds: Sequence[str] = ()) -> Iterator[Document]:
        """The documents of a run, oldest first. `kinds`: no others are needed."""
        ...


@contextlib.contextmanager
def recorded(url: str | None, data: str | None) -> Generator[RunSource, None, None]:
    """The records of a data directory where one is named, else those of the daemon."""
    if data is None:
        with connect(url) as hwd:
            yield _Daemon(hwd)
        return
    if url is not None:
        raise ConfigError("--url, --data: name one of them, the daemon or its data directory")
    path = records_path(Path(data))
    if not path.is_file():
        raise ConfigError(
            f"{data}: holds no records ({path.name}). Name the directory that `hwd serve --data` was given"
        )
    from hwd.records.records import Records
    from hwd.records.records_file import reading_url
    from hwd_drivers.core.offload import InlineOffload

    with reading_url(path) as read_from, asyncio.Runner() as runner:
        records = Records(read_from, InlineOffload(), read_only=True, name=str(path))
        try:
            runner.run(records.open())
            yield _Directory(records, runner)
        finally:
            records.close()


def run_reports(source: RunSource, ids: Sequence[str], *, observations: bool = False) -> "tuple[RunReport, ...]":
    """The data of reports; a run that is named twice counts once. `observations`: as for `of_documents`."""
    from hwd.report.run_report import kinds_of, of_documents

    runs = {run.id: run for run in map(source.run, ids)}
    return tuple(
        of_documents(run, source.stream(id, kinds_of(run)), observations=observations) for id, run in runs.items()
    )


def short(run: Run) -> dict[str, Any]:
    """The JSON of a run without the texts of its files."""
    data: dict[str, Any] = to_plain(run)
    return {key: value for key, value in data.items() if key not in ("playbook_text", "testbed_text", "inventory")}


def started_at(wall_ns: int, *, virtual: bool = False) -> str:
    """The date and time of a start in the time zone of this machine. A run in virtual time has no real date, and the
    text says so.
    """
    text = date_and_time(wall_ns)
    return f"{text} (virtual)" if virtual else text


class _Daemon:
    def __init__(self, hwd: "Client") -> None:
        self._hwd = hwd

    def runs(self, limit: int) -> Sequence[RunSummary]:
        from hwd.client.async_client import RUNS_PAGE

        found: list[RunSummary] = []
        while len(found) < limit:
            page = min(RUNS_PAGE, limit - len(found))
            some = self._hwd.runs(limit=page, before=found[-1].id if found else None)
            found += some
            if len(some) < page:
                break
        return found

    def run(self, id: str) -> Run:
        return self._hwd.run(id)

    def stream(self, id: str, kinds: Sequence[str] = ()) -> Iterator[Document]:
        """The answer contains all of them."""
        return iter(self._hwd.run_documents(id))


class _Directory:
    """Reads while a daemon may be writing: SQLite's write-ahead log allows both."""

    def __init__(self, records: "Records", runner: asyncio.Runner) -> None:
        self._records = records
        self._runner = runner

    def runs(self, limit: int) -> Sequence[RunSummary]:
        return self._runner.run(self._records.runs.newest(limit=limit))

    def run(self, id: str) -> Run:
        return self._runner.run(self._records.runs.get(id))

    def stream(self, id: str, kinds: Sequence[str] = ()) -> Iterator[Document]:
        """Read a page at a time."""
        after, run = 0, self.run(id)
        while page := self._runner.run(self._records.documents(run=run.id, kinds=kinds, after=after, limit=PAGE)):
            after = page[-1].id
            yield from (stored.document for stored in page)
