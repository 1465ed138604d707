"""The comparison of two runs as a part of a page: remarks, a drawing, a table."""

from collections.abc import Iterator

from hwd.report.comparison import NOTE, Comparison, ComparisonRow, comparison_drawing, delta, shift, verdict
from hwd.report.figures.svg import svg
from hwd.report.page.markup import escape
from hwd.report.quantity import duration

WIDTH = 900.0


def comparison_html(comparison: Comparison, *, key: str) -> Iterator[str]:
    """`key` makes the ids of its drawing unique."""
    first, second = map(escape, comparison.runs)
    yield f"<h2>Run {second} against run {first}</h2>"
    if comparison.remarks:
        yield f'<ul class="breaches">{"".join(f"<li>{escape(one)}</li>" for one in comparison.remarks)}</ul>'
    if not comparison.rows:
        yield "<p>No stage was seen in both.</p>"
        return
    yield f"<figure>{svg(comparison_drawing(comparison, width=WIDTH), key=key)}</figure>"
    yield f'<div class="scroll"><table><caption>{escape(NOTE)}.</caption><thead><tr><th scope="col">stage</th>'
    for run in (first, second):
        yield f'<th scope="col" class="num">n {run}</th><th scope="col" class="num">median {run}</th>'
    yield '<th scope="col">shift</th><th scope="col">Cliff\'s delta</th>'
    yield '<th scope="col">verdict</th></tr></thead><tbody>'
    topology = None
    for row in comparison.rows:
        if topology != (topology := row.topology):
            yield f'<tr class="group"><th scope="rowgroup" colspan="8">{escape(topology or "all links")}</th></tr>'
        yield _row(row)
    yield "</tbody></table></div>"


def _row(row: ComparisonRow) -> str:
    cells = "".join(
        f'<td class="num">{row.n[side]}</td><td class="num">{duration(row.median_s[side])}{_mark(row, side)}</td>'
        for side in (0, 1)
    )
    return (
        f'<tr><th scope="row">{row.stage}</th>{cells}<td>{escape(shift(row))}</td><td>{escape(delta(row))}</td>'
        f"<td>{verdict(row)}</td></tr>"
    )


def _mark(row: ComparisonRow, side: int) -> str:
    origin = row.origins[side]
    return f' <span class="mark {origin}">{origin}</span>' if origin is not None else ""
