"""The stage table as plain text, for a terminal or a log."""

from collections.abc import Iterable, Sequence

from hwd.report.stages import ORIGIN_WORDS, StageRow, pairs_figures, stage_figures
from hwd.report.switch_commands import PairsRow

_FIGURES = ("median", "95 % interval", "p99", "max", "bound")
HEADINGS = ("stage", "n", *_FIGURES, "origin", "papers")
PAIRS_HEADINGS = ("pairs", "n", "mean", "95 % interval", "p99", "max", "bound", "origin")
_RIGHT = frozenset({1, 2, 4, 5, 6})


def stage_text(rows: Sequence[StageRow]) -> str:
    """Lines without colour; each group under its name; an explanation of the origins below the table."""
    cells: list[tuple[str, ...]] = []
    lines: list[str | None] = []
    heading = ""
    for row in rows:
        if heading != (heading := f"{' · '.join(row.group) or 'all'} ({row.time})"):
            lines.append(heading)
        lines += [None] * (1 + max(0, len(row.papers) - 1))
        cells += _cells(row)
    widths = [max(len(line[column]) for line in (HEADINGS, *cells)) for column in range(len(HEADINGS))]
    out = [_line(HEADINGS, widths), _line(tuple("-" * width for width in widths), widths)]
    body = iter(cells)
    out += [_line(next(body), widths) if line is None else line for line in lines]
    return "\n".join([*out, *_legend(rows)]) + "\n"


def pairs_text(rows: Sequence[PairsRow]) -> str:
    """Control times by the number of crossconnects that a command made. The interval is that of the mean."""
    cells = [
        (
            str(row.pairs),
            str(row.n),
            *pairs_figures(row).values(),
            f"{row.origin}, {row.group}",
        )
        for row in rows
    ]
    widths = [max(len(line[column]) for line in (PAIRS_HEADINGS, *cells)) for column in range(len(PAIRS_HEADINGS))]
    body = [PAIRS_HEADINGS, tuple("-" * width for width in widths), *cells]
    return "control by pairs of a command\n" + "\n".join(_pairs_line(line, widths) for line in body) + "\n"


def _pairs_line(cells: tuple[str, ...], widths: list[int]) -> str:
    *figures, origin = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
    return "  ".join([*figures, origin.strip()]).rstrip()


def _cells(row: StageRow) -> Iterable[tuple[str, ...]]:
    missing = [f"{count} {word}" for count, word in ((row.unknown, "unknown"), (row.never_left, "never left")) if count]
    figures = stage_figures(row)
    first = (
        f"  {row.stage}",
        str(row.n) + (f" (+ {', '.join(missing)})" if missing else ""),
        *(figures[name] for name in _FIGURES),
        str(row.origin or ""),
    )
    figure, *more = row.papers or [""]
    yield (*first, figure)
    for figure in more:
        yield (*("" for _ in first), figure)


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    padded = [
        cell.rjust(width) if column in _RIGHT else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(padded).rstrip()


def _legend(rows: Sequence[StageRow]) -> list[str]:
    present = {row.origin for row in rows}
    return ["", *(f"{origin}: {words}" for origin, words in ORIGIN_WORDS.items() if origin in present)]
