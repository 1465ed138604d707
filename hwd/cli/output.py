"""Output of the command line: JSON on stdout for programs, text for people. Colour on a terminal only."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import typer

from hwd.model.plural import plural
from hwd_drivers.core.printable import printable
from hwd_drivers.core.standard_streams import speaks_unicode
from hwd_drivers.core.structs import to_plain

GOOD = frozenset({"up", "connected", "succeeded", "confirmed", "tuned", "ready", "done"})
BAD = frozenset({"down", "not connected", "failed", "crashed", "unknown", "overrun", "critical", "little"})
MIDDLING = frozenset({"aborted", "rolled-back", "tuning", "awaiting-confirm", "rolling-back", "blocked", "warning"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The output of a command. With `json`, text for people goes to stderr, so that stdout is one JSON document, or
    JSON lines.
    """

    json: bool

    def say(self, *parts: "str | StyledText") -> None:
        """Print one line of these parts. Control characters of foreign text are escaped; JSON has the original."""
        typer.echo(_rendered(parts), err=self.json, color=self._colour(sys.stderr if self.json else sys.stdout))

    def block(self, text: str) -> None:
        """Print lines that were made here."""
        for line in text.split("\n"):
            self.say(line)

    def note(self, *parts: "str | StyledText") -> None:
        """Print progress or a remark, which is no result: always to stderr, one line."""
        typer.echo(_rendered(parts), err=True, color=self._colour(sys.stderr))

    def remark(self, text: str) -> None:
        """Print lines as `note` does, but lines that were made here, such as those of an error."""
        for line in text.split("\n"):
            self.note(line)

    def data(self, value: object) -> None:
        """Print the JSON document, where --json was given."""
        if self.json:
            typer.echo(_json(value, indent=2))

    def line(self, value: object) -> None:
        """Print one of many JSON documents, one a line."""
        if self.json:
            typer.echo(_json(value))
            sys.stdout.flush()

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Columns under headings; words for good or bad states are coloured."""
        cells = [tuple("" if cell is None else printable(str(cell)) for cell in row) for row in rows]
        widths = [max([len(heading), *(len(row[column]) for row in cells)]) for column, heading in enumerate(headings)]
        self.say(StyledText(_line(headings, widths), bold=True))
        for row in cells:
            line: list[str | StyledText] = []
            for cell, width in zip(row, widths, strict=True):
                line += [coloured(cell), " " * (width - len(cell) + 2)]
            while line and not str(line[-1]).strip():
                line.pop()
            self.say(*line)

    @property
    def on_terminal(self) -> bool:
        """Whether stderr is a terminal: then progress bars and questions make sense."""
        return sys.stderr.isatty() and sys.stdin.isatty()

    @staticmethod
    def _colour(stream: Any) -> bool:
        return bool(stream.isatty()) and not os.environ.get("NO_COLOR")


@dataclass(frozen=True, slots=True)
class StyledText:
    """Words in a colour, or bold: the only escape sequences in the output."""

    text: str
    colour: str | None = None
    bold: bool | None = None

    def __str__(self) -> str:
        return self.text


def coloured(word: str) -> StyledText:
    """Colour a word for a good or bad state."""
    for words, colour in ((GOOD, typer.colors.GREEN), (BAD, typer.colors.RED), (MIDDLING, typer.colors.YELLOW)):
        if word in words:
            return StyledText(word, colour)
    return StyledText(word)


def _rendered(parts: Sequence[str | StyledText]) -> str:
    return "".join(
        typer.style(printable(part.text), fg=part.colour, bold=part.bold)
        if isinstance(part, StyledText) and (part.colour or part.bold)
        else printable(str(part))
        for part in parts
    )


def seconds(value: float | None) -> str:
    """`4.2 s`, `81 ms`; empty where it is unknown."""
    if value is None:
        return ""
    if abs(value) < 1:
        return f"{value * 1e3:.3g} ms"
    return f"{value:.3g} s" if abs(value) < 120 else f"{value / 60:.0f} min"


def few(names: Sequence[object], most: int) -> str:
    """The first of them, and how many more: `ocs1, ocs2 and 3 more`. The JSON has all."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def size(count: int) -> str:
    """`435 bytes`, `12.3 kB`, `4.56 MB`."""
    for unit, factor in (("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return plural(count, "byte")


def words(data: Mapping[str, Any]) -> str:
    """The plain values of a document, in a line; stamps are for programs."""
    return " ".join(
        f"{key}={_figure(value)}"
        for key, value in data.items()
        if isinstance(value, str | int | float | bool) and value != "" and not key.endswith("_ns")
    )


def _json(value: object, indent: int | None = None) -> str:
    """A surrogate without its partner has no UTF-8 form; JSON can escape it."""
    text = json.dumps(value, indent=indent, ensure_ascii=not speaks_unicode(), default=_plain)
    return text.encode("utf-8", "backslashreplace").decode()


def _plain(value: object) -> object:
    """An answer of the daemon as it is encoded, anything else as text."""
    return to_plain(value) if isinstance(value, msgspec.Struct) else str(value)


def _figure(value: object) -> object:
    """Round a figure to at most four digits: `6.738`, `0.0042`."""
    if not isinstance(value, float):
        return value
    return f"{value:.3g}" if abs(value) < 1 else f"{value:.3f}".rstrip("0").rstrip(".")


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
