"""JSON lines: the run on the first line, then every document as it was recorded."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from hwd.model.kinds import read_document
from hwd.model.recorded_run import Run
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import ConfigError, ProtocolError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import from_plain, to_plain

RUN_KIND = "run"
"""Kind of the first line; it is not a kind of documents."""


class Sink(Protocol):
    """A file, or anything else that takes bytes."""

    def write(self, data: bytes, /) -> object: ...


def jsonl(run: Run, documents: Iterable[Document], to: Sink) -> None:
    """Write the whole run. A document of another version that this one can read has the fields of this version."""
    for _ in as_written(run, documents, to):
        pass


def as_written(run: Run, documents: Iterable[Document], to: Sink) -> Iterator[Document]:
    """Write the whole run as the documents pass."""
    to.write(json_line({"kind": RUN_KIND, "run": to_plain(replace(run, state=UNSET))}))
    for document in documents:
        to.write(json_line(document.to_data()))
        yield document


def json_line(value: object) -> bytes:
    """One line of UTF-8, without spaces."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # A surrogate without its partner has no UTF-8 form; JSON can escape it.
    return text.encode("utf-8", "backslashreplace") + b"\n"


def read_jsonl(lines: Iterable[str | bytes]) -> tuple[Run, Iterator[Document]]:
    """Read what `jsonl` wrote. Raises ConfigError where the first line is no run, or a later one no document."""
    numbered = enumerate(lines, start=1)
    first = next(numbered, None)
    head = _read(*first) if first is not None else {}
    if head.get("kind") != RUN_KIND:
        raise ConfigError("line 1: is no run. `hwd export RUN --as jsonl` writes such files")
    try:
        run = from_plain(head.get("run"), Run)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"line 1: is no run: {reason_of(error)}. `hwd export RUN --as jsonl` writes such files"
        ) from error
    return run, (_document(number, _read(number, line)) for number, line in numbered)


def _read(number: int, line: str | bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"line {number}: is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"line {number}: is no JSON object")
    return value


def _document(number: int, value: dict[str, Any]) -> Document:
    try:
        return read_document(value)
    except ProtocolError as error:
        raise ConfigError(f"line {number}: {error}") from error
