"""Finished runs, from a daemon or directly from a data directory: the same methods for both."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

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

T = TypeVar("T")

PAGE = 32
"""Documents read at a time: some megabytes, since the timeline of a large rack alone is half a megabyte."""


class RunSource(Protocol):
    """A source of runs. A run is named by its `id` or a prefix of it."""

    def runs(self, limit: int) -> Sequence[RunSummary]:
        """The newest, without their texts and inventories."""
        ...

    def run(self, id: str) -> Run: ...

    def run_documents(self, id: str) -> list[Document]: ...

    def stream(self, id: str, kinds: Sequence[str] = ()) -> Iterator[Document]:
        """Yield the documents of a run one by one, for callers that do not need all at once. `kinds`: no others are
        needed.
        """
        ...


@contextlib.contextmanager
def recorded(url: str | None, data: str | None) -> Generator[RunSource, None, None]:
    """The records of a data directory where one is named, else those of the daemon."""
    if data is None:
        from hwd.client import Client

        with Client.find(url) as hwd:
            yield _Daemon(hwd)
        return
    if url is not None:
        raise ConfigError("--url, --data: name one of them, the daemon or its data directory")
    path = records_path(Path(data))
    if not path.is_file():
        raise ConfigError(
            f"{data}: holds no records ({path.name}). Name the directory that `hwd serve --data` was given"
        )
    yield _Directory(path)


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

    def run_documents(self, id: str) -> list[Document]:
        return self._hwd.run_documents(id)

    def stream(self, id: str, kinds: Sequence[str] = ()) -> Iterator[Document]:
        """The answer contains all of them."""
        return iter(self.run_documents(id))


class _Directory:
    """Reads while a daemon may be writing: SQLite's write-ahead log allows both."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def runs(self, limit: int) -> Sequence[RunSummary]:
        async def read(records: "Records") -> Sequence[RunSummary]:
            return await records.runs.newest(limit=limit)

        return self._read(read)

    def run(self, id: str) -> Run:
        async def read(records: "Records") -> Run:
            return await records.runs.get(id)

        return self._read(read)

    def run_documents(self, id: str) -> list[Document]:
        async def read(records: "Records") -> list[Document]:
            run = await records.runs.get(id)
            return [stored.document for stored in await records.documents(run=run.id)]

        return self._read(read)

    def stream(self, id: str, kinds: Sequence[str] = ()) -> Iterator[Document]:
        """Read a page at a time."""
        after = 0
        with asyncio.Runner() as runner, self._open() as records:
            runner.run(records.open())
            run = runner.run(records.runs.get(id))
            while page := runner.run(records.documents(run=run.id, kinds=kinds, after=after, limit=PAGE)):
                after = page[-1].id
                yield from (stored.document for stored in page)

    def _read(self, question: "Callable[[Records], Awaitable[T]]") -> "T":
        async def ask() -> "T":
            with self._open() as records:
                await records.open()
                return await question(records)

        return asyncio.run(ask())

    @contextlib.contextmanager
    def _open(self) -> "Iterator[Records]":
        from hwd.records.records import Records
        from hwd.records.records_file import reading_url
        from hwd_drivers.core.offload import InlineOffload

        with reading_url(self._path) as url:
            records = Records(url, InlineOffload(), read_only=True, name=str(self._path))
            try:
                yield records
            finally:
                records.close()
