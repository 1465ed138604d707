"""Control time by pairs as a part of a page: the drawing, and its figures in a table."""

from collections.abc import Iterator, Sequence

from hwd.report.figures.control_by_pairs import of_pairs
from hwd.report.figures.drawing import Drawing
from hwd.report.figures.svg import svg
from hwd.report.page.markup import escape
from hwd.report.papers import PaperFigure
from hwd.report.quantity import bound, duration, interval, stated
from hwd.report.switch_commands import PairsRow

_HEADINGS = ("n", "mean", "95 % interval", "p99", "max", "bound")


def pairs_html(
    drawing: Drawing, rows: Sequence[PairsRow], papers: Sequence[PaperFigure], *, fitted: bool
) -> Iterator[str]:
    """`papers`: those to compare with; `fitted`: our switches draw from them."""
    yield f"<h2>Control time by pairs</h2><figure>{svg(drawing)}</figure>"
    yield '<div class="scroll"><table><caption>Commands that made so many crossconnects at once. '
    yield "The interval is that of the mean, over whole reconfigurations, and needs 20 of them; "
    yield "p99 needs 100 commands.</caption>"
    yield '<thead><tr><th scope="col">pairs</th>'
    yield "".join(f'<th scope="col" class="num">{heading}</th>' for heading in _HEADINGS)
    yield '<th scope="col">origin</th><th scope="col">the papers</th></tr></thead><tbody>'
    for row in rows:
        yield _row(row, [one for one in of_pairs(papers) if one.pairs == row.pairs], fitted)
    yield "</tbody></table></div>"


def _row(row: PairsRow, beside: Sequence[PaperFigure], fitted: bool) -> str:
    figures = (
        str(row.n),
        duration(row.mean_s),
        interval(*(row.mean_within_s or (None, None))),
        duration(row.p99_s),
        duration(row.max_s),
        bound(row.error_s),
    )
    cells = "".join(f'<td class="num">{figure}</td>' for figure in figures)
    mark = ' <span class="fitted">fitted to it</span>' if fitted else ""
    compared = "<br>".join(
        escape(f"{one.paper} {one.where}: {one.statistic} {stated(one.low_s, one.high_s)}") + mark for one in beside
    )
    time = "virtual time" if row.virtual_time else "real time"
    origin = f'<span class="mark {row.origin}">{row.origin}</span>'
    return f'<tr><th scope="row">{row.pairs}, {time}</th>{cells}<td>{origin}</td><td>{compared}</td></tr>'
