"""The tables of a report as plain text, without colour, for a terminal or a log."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from hwd.report.jobs import JobRow, job_figures
from hwd.report.predictions import PredictionRow, prediction_figures
from hwd.report.rc_recovery import RecoveryRow, recovery_figures
from hwd.report.stages import ORIGIN_WORDS, StageRow, pairs_figures, stage_figures
from hwd.report.switch_commands import PairsRow

_FIGURES = ("median", "95 % interval", "p99", "max", "bound")
HEADINGS = ("stage", "n", *_FIGURES, "origin", "papers")
_RIGHT = frozenset({1, 2, 4, 5, 6})


def stage_text(rows: Sequence[StageRow]) -> str:
    """Each group under its name; an explanation of the origins below the table."""
    cells: list[tuple[str, ...]] = []
    lines: list[str | None] = []
    heading = ""
    for row in rows:
        if heading != (heading := f"{' · '.join(row.group) or 'all'} ({row.time})"):
            lines.append(heading)
        lines += [None] * (1 + max(0, len(row.papers) - 1))
        cells += _cells(row)
    head, dashes, *body = _aligned([HEADINGS, *cells], _RIGHT)
    of_stages = iter(body)
    out = [head, dashes, *(next(of_stages) if line is None else line for line in lines)]
    return "\n".join([*out, *_legend(rows)]) + "\n"


def pairs_text(rows: Sequence[PairsRow]) -> str:
    """Control times by the number of crossconnects that a command made. The interval is that of the mean."""
    cells = [
        {"pairs": str(row.pairs), "n": str(row.n), **pairs_figures(row), "origin": f"{row.origin}, {row.group}"}
        for row in rows
    ]
    return _table("control by pairs of a command", cells, right=range(len(cells[0]) - 1))


def recovery_text(rows: Sequence[RecoveryRow]) -> str:
    cells = [recovery_figures(row) | {"origin": str(row.origin)} for row in rows]
    title = "rc recovery: carrier to the first send of the dark that got through"
    return _table(title, cells, right=range(len(cells[0])))


def job_text(rows: Sequence[JobRow]) -> str:
    return _table("iterations of jobs", [job_figures(row) for row in rows])


def prediction_text(rows: Sequence[PredictionRow]) -> str:
    cells = [prediction_figures(row) for row in rows]
    return _table("predicted times of the plans", cells, right=range(1, len(cells[0])))


def _table(title: str, rows: Sequence[Mapping[str, str]], *, right: Collection[int] = ()) -> str:
    """The rows by their headings, at least one."""
    return "\n".join([title, *_aligned([[*rows[0]], *([*row.values()] for row in rows)], right)]) + "\n"


def _aligned(rows: Sequence[Sequence[str]], right: Collection[int]) -> list[str]:
    """The lines of headings, dashes and rows; the columns in `right` are flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (rows[0], ["-" * width for width in widths], *rows[1:])
    ]


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


def _legend(rows: Sequence[StageRow]) -> list[str]:
    present = {row.origin for row in rows}
    return ["", *(f"{origin}: {words}" for origin, words in ORIGIN_WORDS.items() if origin in present)]
