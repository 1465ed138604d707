"""Demand in CSV, UTF-8 with commas, as a table of senders and receivers or as a list of pairs.

A table has the names in its header, and a row for each sender: `h0,h1,h2` with rows in this order, or `from,h0,h1,h2`
(`from` may be left empty) with rows that begin with the sender's name, in any order.

A list has the header `layer,microbatch,from,to,bytes` in any order, and a row for each pair. Pairs without a row are 0,
and so are `layer` and `microbatch` where their columns are missing. Empty lines are skipped.
"""

import csv
import io
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hwd.model.demand import AMOUNT_MAX, CELLS_MAX, CSV_BYTES_MAX, EXPERTS_MAX, MATRICES_MAX, NUMBER_MAX
from hwd.model.plural import plural
from hwd_drivers.core.errors import ConfigError

LIST: Final = frozenset({"from", "to", "bytes"})
NUMBERS: Final = frozenset({"layer", "microbatch"})
SHOWN: Final = 40
"""Characters of a cell in a message."""

_AMOUNT: Final = re.compile(r"[+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")

Matrices = Mapping[tuple[int, int], NDArray[np.float64]]
"""By layer and micro-batch, senders x receivers, in bytes."""
_Row = tuple[int, list[str]]
"""The line where it ends, and its cells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvDemand:
    """Matrices of `names`, in this order. `is_list`: the order is that of their first appearance, and says nothing."""

    names: tuple[str, ...]
    is_list: bool
    matrices: Matrices


def read_csv(data: bytes) -> CsvDemand:
    """Raises ConfigError with the line and the column of what cannot be read."""
    if len(data) > CSV_BYTES_MAX:
        raise ConfigError(f"CSV: has {len(data)} bytes, over the {CSV_BYTES_MAX} of a CSV file; send NPZ")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"CSV: byte {error.start} is no UTF-8; save the file as UTF-8") from error
    rows = _rows(text)
    first, header = next(rows, (1, [""]))
    words = [cell.lower() for cell in header]
    if {*words} >= LIST:
        return _list(first, words, rows)
    return _table(first, header, rows)


def _rows(text: str) -> Iterator[_Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for cells in reader:
            if any(cells):
                yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise ConfigError(f"CSV, line {reader.line_num}: {error}") from error


def _table(first: int, header: Sequence[str], rows: Iterator[_Row]) -> CsvDemand:
    is_led = header[0].lower() in ("", "from")
    names = tuple(header[1:] if is_led else header)
    for column, name in enumerate(names, 1 + is_led):
        _check_new(name, first, column)
    if not 1 < len(names) <= EXPERTS_MAX:
        raise ConfigError(
            f"CSV, line {first}: the header has {plural(len(names), 'name')}, and may have 2 to {EXPERTS_MAX}, "
            "with commas"
        )
    place = {name: number for number, name in enumerate(names)}
    if len(place) < len(names):
        twice = next(name for number, name in enumerate(names) if place[name] != number)
        raise ConfigError(f"CSV, line {first}: {twice} is twice in the header")
    found = np.zeros((len(names), len(names)))
    seen: dict[int, int] = {}
    for line, cells in rows:
        if len(cells) != len(header):
            raise ConfigError(f"CSV, line {line}: has {plural(len(cells), 'column')}, and the header has {len(header)}")
        if is_led and cells[0] not in place:
            raise ConfigError(f"CSV, line {line}, column 1: {_shown(cells[0])} is not in the header")
        row = place[cells[0]] if is_led else len(seen)
        if row in seen:
            raise ConfigError(f"CSV, line {line}: {names[row]} is a sender in line {seen[row]} already")
        if row >= len(names):
            raise ConfigError(f"CSV, line {line}: one sender more than the {len(names)} of the header")
        seen[row] = line
        amounts = cells[1:] if is_led else cells
        found[row] = [_amount(cell, line, column) for column, cell in enumerate(amounts, 1 + is_led)]
    if len(seen) < len(names):
        missing = next(name for number, name in enumerate(names) if number not in seen)
        raise ConfigError(
            f"CSV: ends after {plural(len(seen), 'sender')} of {len(names)}; the row of {missing} is missing"
        )
    return CsvDemand(names=names, is_list=False, matrices={(0, 0): found})


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Rows of a list, column by column: a list of tuples would take twenty times the memory of the file."""

    matrix: "array[int]" = field(default_factory=lambda: array("q"))
    sender: "array[int]" = field(default_factory=lambda: array("q"))
    receiver: "array[int]" = field(default_factory=lambda: array("q"))
    amount: "array[float]" = field(default_factory=lambda: array("d"))
    line: "array[int]" = field(default_factory=lambda: array("q"))


def _list(first: int, words: Sequence[str], rows: Iterator[_Row]) -> CsvDemand:
    if (strange := {*words} - LIST - NUMBERS) or len({*words}) < len(words):
        odd = f"{_shown(min(strange))} is none" if strange else "one is named twice"
        raise ConfigError(f"CSV, line {first}: the columns are layer, microbatch, from, to and bytes; {odd}")
    column = {word: number for number, word in enumerate(words)}
    names: dict[str, int] = {}
    pairs, numbers = _Pairs(), dict[tuple[int, int], int]()
    for line, cells in rows:
        if len(cells) != len(words):
            raise ConfigError(f"CSV, line {line}: has {plural(len(cells), 'column')}, and the header has {len(words)}")
        layer, microbatch = (
            _number(cells[column[word]], word, line) if word in column else 0 for word in ("layer", "microbatch")
        )
        pairs.matrix.append(numbers.setdefault((layer, microbatch), len(numbers)))
        for word, numbered in (("from", pairs.sender), ("to", pairs.receiver)):
            name = cells[column[word]]
            if name not in names:
                _check_new(name, line, column[word] + 1)
            numbered.append(names.setdefault(name, len(names)))
        pairs.amount.append(_amount(cells[column["bytes"]], line, column["bytes"] + 1))
        pairs.line.append(line)
        if len(names) > EXPERTS_MAX or len(numbers) > MATRICES_MAX:
            raise ConfigError(
                f"CSV, line {line}: over {EXPERTS_MAX} names, or over {MATRICES_MAX} pairs of layer and micro-batch"
            )
    if not names:
        raise ConfigError("CSV: has a header and no rows")
    return CsvDemand(names=(*names,), is_list=True, matrices=_matrices(pairs, (*numbers,), (*names,)))


def _matrices(pairs: _Pairs, keys: tuple[tuple[int, int], ...], names: tuple[str, ...]) -> Matrices:
    size = len(names)
    if len(keys) * size**2 > CELLS_MAX:
        raise ConfigError(
            f"CSV: {plural(len(keys), 'matrix', many='matrices')} of {size} x {size}: more than the {CELLS_MAX} "
            "numbers of one file"
        )
    matrix, sender, receiver = (np.asarray(one) for one in (pairs.matrix, pairs.sender, pairs.receiver))
    place = (matrix * size + sender) * size + receiver
    order = np.argsort(place, kind="stable")
    again = np.flatnonzero(np.diff(place[order]) == 0)
    if again.size:
        first, second = order[again[0]], order[again[0] + 1]
        layer, microbatch = keys[pairs.matrix[first]]
        raise ConfigError(
            f"CSV, line {pairs.line[second]}: {names[pairs.sender[first]]} to {names[pairs.receiver[first]]} of layer "
            f"{layer}, micro-batch {microbatch} is in line {pairs.line[first]} already"
        )
    found = np.zeros((len(keys), size, size))
    found.reshape(-1)[place] = np.asarray(pairs.amount)
    return dict(zip(keys, found, strict=True))


def _amount(cell: str, line: int, column: int) -> float:
    try:
        amount = float(cell) if _AMOUNT.fullmatch(cell) else np.nan
    except ValueError:
        amount = np.nan
    if not 0 <= amount <= AMOUNT_MAX:
        raise ConfigError(
            f"CSV, line {line}, column {column}: {_shown(cell)} is no number of bytes from 0 to {AMOUNT_MAX:g}"
        )
    return amount


def _number(cell: str, word: str, line: int) -> int:
    if not _NUMBER.fullmatch(cell) or int(cell) > NUMBER_MAX:
        raise ConfigError(f"CSV, line {line}: {word} {_shown(cell)} is no whole number from 0 to {NUMBER_MAX}")
    return int(cell)


def _check_new(name: str, line: int, column: int) -> None:
    if not 0 < len(name) <= 64 or not name.isprintable():
        raise ConfigError(f"CSV, line {line}, column {column}: {_shown(name)} is no name of a host or an expert")


def _shown(cell: str) -> str:
    return repr(cell if len(cell) <= SHOWN else f"{cell[:SHOWN]}...")
