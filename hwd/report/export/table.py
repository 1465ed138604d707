"""The table as CSV and as Parquet: the same rows, the same columns."""

import csv as csv_format
import io
import itertools
from collections.abc import Iterable
from typing import Any, BinaryIO

from hwd.model.recorded_run import Run
from hwd.report.export.rows import COLUMNS, Row, Value, rows
from hwd.report.optional_import import import_optional
from hwd_drivers.core.documents import Document

ROWS_AT_ONCE = 8192
"""Rows of a row group of Parquet, which are in memory together: some 10 MB."""
_FORMULAS = ("=", "+", "-", "@")
_CONTROLS = dict.fromkeys((*range(32), 127, 133, 8232, 8233), " ")


def csv(run: Run, documents: Iterable[Document], to: BinaryIO) -> int:
    """Returns the number of rows. UTF-8 with a heading, RFC 4180: CRLF ends a row. Empty: unknown. `true` and `false`;
    numbers in full precision.

    A text is one line, with spaces for control characters; one that a spreadsheet would take for a formula is prefixed
    by an apostrophe.
    """
    line = io.StringIO(newline="")
    writer = csv_format.writer(line)
    writer.writerow([column.name for column in COLUMNS])
    count = 0
    for row in rows(run, documents):
        writer.writerow([_cell(value) for value in row])
        to.write(_taken(line))
        count += 1
    to.write(_taken(line))
    return count


def parquet(run: Run, documents: Iterable[Document], to: BinaryIO) -> int:
    """Returns the number of rows. Zstandard; the meaning of a column is in its metadata. Raises ConfigError without the
    extra `export`.
    """
    pa, pq = import_optional("pyarrow", "Parquet"), import_optional("pyarrow.parquet", "Parquet")
    schema = _schema(pa)
    found = rows(run, documents)
    count = 0
    with pq.ParquetWriter(to, schema, compression="zstd") as writer:
        while batch := list(itertools.islice(found, ROWS_AT_ONCE)):
            columns = [pa.array(values, field.type) for field, values in zip(schema, _columns(batch), strict=True)]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
            count += len(batch)
    return count


def _taken(line: io.StringIO) -> bytes:
    text = line.getvalue()
    line.seek(0)
    line.truncate()
    return text.encode("utf-8", "backslashreplace")


def _cell(value: Value) -> str | int | float:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str():
            text = value.translate(_CONTROLS)
            return f"'{text}" if text.startswith(_FORMULAS) else text
    return value


def _columns(batch: Iterable[Row]) -> Iterable[list[Value]]:
    for values in zip(*batch, strict=True):
        yield [value.encode("utf-8", "replace").decode() if isinstance(value, str) else value for value in values]


def _schema(pa: Any) -> Any:
    types = {str: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
    return pa.schema(
        [
            pa.field(column.name, types[column.type], nullable=column.optional, metadata={"means": column.means})
            for column in COLUMNS
        ]
    )
