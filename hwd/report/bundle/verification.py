"""Derives the report of a bundle from its records again, and compares."""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from hwd.model.kinds import UnreadFact
from hwd.model.reconfiguration import ReconfigurationEnded, ReconfigurationFact
from hwd.report.bundle.archive import Archive
from hwd.report.bundle.contents import Kind, Part, contents
from hwd.report.bundle.difference import (
    Difference,
    table_differences,
    text_differences,
    value_differences,
)
from hwd.report.bundle.figure_difference import figure_differences
from hwd.report.bundle.manifest import FIGURES, HOLDS, MANIFEST, README, RECORD, TABLES, Program, about, encoded
from hwd.report.export.json_lines import read_jsonl
from hwd.report.grouping import parts_of
from hwd.report.run_report import RunReport, of_documents
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import BugError, ConfigError, ProtocolError
from hwd_drivers.core.printable import printable

DIFFERENCES_MAX = 1000
"""The most differences of one part: more say no more."""
OPEN_MAX = 1000
"""Reconfigurations without an end, each of which takes a share of all that follows it."""
_BROKEN = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError, BugError, ProtocolError)
"""What documents that contradict themselves may lead to."""

Documents = Iterable[Document]


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the verification of a bundle. `figures`, `tables`, `pages`: how many were derived again and are
    equal. `unlike`: versions in which the program that made the bundle and this one differ.
    """

    run: str
    made_by: Program
    verified_by: Program
    unlike: tuple[str, ...]
    figures: int
    tables: int
    pages: int
    differences: list[Difference]

    @property
    def equal(self) -> bool:
        return not self.differences


def recorded_report(archive: Archive, passing: Callable[[Documents], Documents]) -> RunReport:
    """The report of the records in a bundle; `passing` sees the documents as they pass. Raises ConfigError where they
    are damaged, or no report can be made of them.
    """
    try:
        run, documents = read_jsonl(archive.lines(RECORD))
        return of_documents(run, passing(_bounded(documents)))
    except ConfigError as error:
        where = f"{archive.path}: "
        raise ConfigError(str(error) if str(error).startswith(where) else f"{where}{RECORD}: {error}") from error
    except _BROKEN as error:
        raise _underivable(archive, error) from error


def verify(archive: Archive, report: RunReport, *, verified_by: Program) -> Verification:
    """Raises ConfigError where a part of the bundle is damaged, or cannot be derived."""
    equal = dict.fromkeys(Kind, 0)
    differences = [*value_differences(MANIFEST, "run", archive.manifest.run, report.run.id)]
    holds = dict(HOLDS)
    for part in _derived(archive, report):
        holds[part.name] = part.holds
        found = [*itertools.islice(_differences(archive, part), DIFFERENCES_MAX)]
        equal[part.kind] += not found
        differences += found
    for name in archive.names:
        if name not in holds:
            archive.data(name)
            differences.append(Difference(part=_called(name), note="no figure, table or page of this name is derived"))
    for member in archive.manifest.members:
        if (words := holds.get(member.name, member.holds)) != member.holds:
            differences.append(
                Difference(part=MANIFEST, at=f"what {member.name} holds", in_bundle=member.holds, from_records=words)
            )
    readme = archive.data(README) if README in archive.names else b""
    if README not in archive.changed and readme != about(report.run, archive.manifest.made_by):
        differences.append(Difference(part=README, note="is not the text that goes with this run"))
    differences += [Difference(part=name, note=words) for name, words in archive.changed.items()]
    made_by = archive.manifest.made_by
    return Verification(
        run=report.run.id,
        made_by=made_by,
        verified_by=verified_by,
        unlike=made_by.unlike(verified_by),
        figures=equal[Kind.FIGURE],
        tables=equal[Kind.TABLE],
        pages=equal[Kind.PAGE],
        differences=differences,
    )


def _derived(archive: Archive, report: RunReport) -> Iterator[Part]:
    try:
        parts_of(archive.manifest.report.by)
    except ConfigError as error:
        raise ConfigError(f"{archive.path}: {MANIFEST}: {error}") from error
    try:
        yield from contents(report, archive.manifest.report)
    except (ConfigError, *_BROKEN) as error:
        raise _underivable(archive, error) from error


def _differences(archive: Archive, part: Part) -> Iterator[Difference]:
    name = _called(part.name)
    if part.name not in archive.names:
        yield Difference(part=name, note="is not in the bundle, and is derived from its records")
        return
    match part.kind:
        case Kind.PAGE:
            yield from text_differences(name, _text(archive, part.name), part.value)
        case Kind.TABLE:
            yield from table_differences(name, archive.value(part.name), _plain(part.value))
        case Kind.FIGURE:
            yield from figure_differences(name, archive.value(part.name), _plain(part.value))


def _text(archive: Archive, name: str) -> str:
    try:
        return archive.data(name).decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{archive.path}: {name}: is no UTF-8: {error.reason} at byte {error.start}") from error


def _plain(value: Any) -> Any:
    """Convert a value to what comes back out of a bundle."""
    return json.loads(encoded(value))


def _called(name: str) -> str:
    """`figures/waterfall`, as a reader calls it."""
    return name.removesuffix(".json") if name.startswith((TABLES, FIGURES)) else name


def _bounded(documents: Documents) -> Iterator[Document]:
    """Yield the same documents. Raises ConfigError where more reconfigurations are open than any rack has at once, and
    where one cannot be read.
    """
    began: set[str] = set()
    for document in documents:
        match document.fact:
            case UnreadFact(kind=kind, why=str(why)) if why:
                raise ConfigError(f"a document {kind} cannot be read: {why}")
            case ReconfigurationEnded(reconfiguration=id):
                began.discard(id)
            case ReconfigurationFact(reconfiguration=id):
                began.add(id)
        if len(began) > OPEN_MAX:
            raise ConfigError(f"over {OPEN_MAX} reconfigurations have no end")
        yield document


def _underivable(archive: Archive, error: BaseException) -> ConfigError:
    found = printable(f"{type(error).__name__}: {error}", most=200)
    return ConfigError(f"{archive.path}: {RECORD}: no report can be made of it: {found}")
