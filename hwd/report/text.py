"""The stage table as plain text, for a terminal or a log."""

from collections.abc import Iterable, Sequence

from hwd.report.quantity import bound, duration, interval
from hwd.report.stages import ORIGIN_WORDS, StageRow

HEADINGS = ("stage", "n", "median", "95 % interval", "p99", "max", "error", "origin", "papers")
_RIGHT = frozenset({1, 2, 4, 5, 6})


def stage_text(rows: Sequence[StageRow]) -> str:
    """Lines without colour; each group under its name; the words of the origins that occur under the table."""
    cells: list[tuple[str, ...]] = []
    lines: list[str | None] = []
    heading = ""
    for row in rows:
        if heading != (heading := f"{' · '.join(row.statistics.group) or 'all'} ({row.time})"):
            lines.append(heading)
        lines += [None] * (1 + max(0, len(row.beside) - 1))
        cells += _cells(row)
    widths = [max(len(line[column]) for line in (HEADINGS, *cells)) for column in range(len(HEADINGS))]
    out = [_line(HEADINGS, widths), _line(tuple("-" * width for width in widths), widths)]
    body = iter(cells)
    out += [_line(next(body), widths) if line is None else line for line in lines]
    return "\n".join([*out, *_legend(rows)]) + "\n"


def _cells(row: StageRow) -> Iterable[tuple[str, ...]]:
    one = row.statistics
    missing = [f"{count} {word}" for count, word in ((one.unknown, "unknown"), (one.never_left, "never left")) if count]
    first = (
        f"  {one.stage}",
        str(one.n) + (f" (+ {', '.join(missing)})" if missing else ""),
        duration(one.median_s),
        interval(one.median_low_s, one.median_high_s),
        duration(one.p99_s),
        duration(one.max_s),
        bound(one.error_s),
        str(row.origin or ""),
    )
    beside = [str(figure) for figure in row.beside] or [""]
    yield (*first, beside[0])
    for more in beside[1:]:
        yield (*("" for _ in first), more)


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    padded = [
        cell.rjust(width) if column in _RIGHT else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(padded).rstrip()


def _legend(rows: Sequence[StageRow]) -> list[str]:
    present = {row.origin for row in rows}
    return ["", *(f"{origin}: {words}" for origin, words in ORIGIN_WORDS.items() if origin in present)]
