"""Writes a bundle: first the run as it was recorded, then what its report makes of it, at last the manifest."""

import contextlib
import hashlib
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import IO, BinaryIO, Self

from hwd.model.recorded_run import Run
from hwd.report.bundle.contents import Kind, Part, choices_of, contents
from hwd.report.bundle.manifest import (
    FORMAT,
    FORMAT_VERSION,
    HOLDS,
    MANIFEST,
    README,
    RECORD,
    Manifest,
    Member,
    Program,
    about,
    bytes_max,
    encoded,
)
from hwd.report.export.json_lines import as_written
from hwd.report.run_report import RunReport, of_documents
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.structs import to_plain

_LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""The earliest date that a zip file can have: the same run gives the same bytes."""
_FILE_MODE = 0o100644


class BundleWriter:
    """Use it as a context: `record` first, then `derive`.

    Documents pass through one by one; the report of the run stays in memory, as for `hwd report`. The file is written
    from its beginning to its end, also into a pipe.
    """

    def __init__(self, run: Run, to: BinaryIO, *, made_by: Program) -> None:
        self._run, self._made_by = run, made_by
        self._to = _Forward(to)
        self._zip = zipfile.ZipFile(self._to, "w", compression=zipfile.ZIP_DEFLATED)  # type: ignore[call-overload]
        self._members: list[Member] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._to.stop()  # the zip file wants to write its end in any case
        self._zip.close()

    def record(self, documents: Iterable[Document]) -> RunReport:
        """Write what was recorded. Raises ConfigError where it is more than a bundle can hold."""
        self._add(README, HOLDS[README], about(self._run, self._made_by))
        with self._member(RECORD, HOLDS[RECORD]) as to:
            return of_documents(self._run, as_written(self._run, documents, to))

    def derive(self, report: RunReport, *, by: Sequence[str] | None, compare_with: str | None) -> None:
        """Write the report and the manifest. Raises ConfigError for unknown groups."""
        choices = choices_of(report, by=by, compare_with=compare_with)
        for part in contents(report, choices):
            self._add(part.name, part.holds, _data(part))
        manifest = Manifest(
            format=FORMAT,
            format_version=FORMAT_VERSION,
            run=self._run.id,
            made_by=self._made_by,
            report=choices,
            members=self._members,
        )
        self._zip.writestr(_entry(MANIFEST), encoded(to_plain(manifest), indent=1))

    def _add(self, name: str, holds: str, data: bytes) -> None:
        with self._member(name, holds) as to:
            to.write(data)

    @contextlib.contextmanager
    def _member(self, name: str, holds: str) -> Iterator["_MeasuredStream"]:
        most = bytes_max(name)
        with self._zip.open(_entry(name), "w", force_zip64=most > zipfile.ZIP64_LIMIT) as file:
            to = _MeasuredStream(file, name=name, most=most)
            yield to
        self._members.append(Member(name=name, holds=holds, bytes=to.count, sha256=to.hash.hexdigest()))


class _Forward:
    """A file that can only be written on: what cannot be seen in the target's kind is not seen in the bytes."""

    def __init__(self, to: BinaryIO) -> None:
        self._to = to
        self._stopped = False

    def stop(self) -> None:
        """Write nothing more."""
        self._stopped = True

    def write(self, data: bytes) -> int:
        return len(data) if self._stopped else self._to.write(data)

    def flush(self) -> None:
        if not self._stopped:
            self._to.flush()


class _MeasuredStream:
    """The data of a member, counted and hashed as they pass."""

    def __init__(self, to: IO[bytes], *, name: str, most: int) -> None:
        self._to, self._name, self._most = to, name, most
        self.count, self.hash = 0, hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.count += len(data)
        if self.count > self._most:
            raise ConfigError(
                f"{self._name}: is over the {self._most >> 20} MiB that it may have in a bundle. "
                "`hwd export RUN --as jsonl` writes a run of any size"
            )
        self.hash.update(data)
        return self._to.write(data)


def _data(part: Part) -> bytes:
    """Tables are read by people, too; figures are large."""
    match part.kind:
        case Kind.PAGE:
            page: str = part.value
            return page.encode("utf-8", "backslashreplace")
        case Kind.TABLE:
            return encoded(part.value, indent=1)
        case Kind.FIGURE:
            return encoded(part.value)


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, date_time=_LONG_AGO)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3  # Unix, so that the permissions count
    entry.external_attr = _FILE_MODE << 16
    return entry
