"""Two runs compared: Cliff's delta of each stage with its interval, so that short and long stages share one scale."""

from collections.abc import Iterator
from functools import partial
from itertools import groupby

import altair as alt

from hwd.report.comparison import Comparison, ComparisonRow, delta, is_shift_resolved, shift, signed, verdict
from hwd.report.figures.figure import (
    CHARACTER,
    GROUP_COLOURS,
    MARGIN,
    Chart,
    Datasets,
    Figure,
    Row,
    a_row_each,
    along,
    coloured,
    fixed_place,
    heading,
    in_lines,
    in_rows,
    moved,
    panel_heading,
)
from hwd.report.quantity import MISSING
from hwd.timeline.difference import NEGLIGIBLE

_STEP, _SHIFT, _GAP = 24, 80, 18
_TITLE = "Two runs compared"
_FEW = "too few for a verdict"
_VERDICTS = {
    "shorter": GROUP_COLOURS[0], "no difference shown": GROUP_COLOURS[7], "longer": GROUP_COLOURS[1],
    _FEW: GROUP_COLOURS[4],
}  # fmt: skip


def comparison_figure(comparison: Comparison) -> Figure:
    """A row for each stage, a panel for each topology; the difference of the medians to the right."""
    first, second = comparison.runs
    return Figure(
        name="comparison",
        title=f"Run {second} against run {first}",
        description="; ".join(map(str, comparison.rows)),
        chart=partial(_chart, comparison),
    )


def _chart(comparison: Comparison, width: float, data: Datasets) -> Chart:
    first, second = comparison.runs
    note = (
        f"Cliff's delta of {second} against {first}: to the right {second} is slower, to the left faster · "
        "line: 95 % interval · ring: no interval · shade: negligible · right: difference of the medians"
    )
    panels: list[Chart] = [
        _panel(data, topology, tuple(found), width)
        for topology, found in groupby(comparison.rows, key=lambda row: row.topology)
    ]
    return in_rows(in_lines(panels, 1), _GAP, heading(_TITLE, [note], width))


def _panel(data: Datasets, topology: str, found: tuple[ComparisonRow, ...], width: float) -> Chart:
    left = max(len(str(row.stage)) for row in found) * CHARACTER + 12
    plot = width - 2 * MARGIN - left - _SHIFT
    x = along(alt.X, "low", (-1, 1), values=[-1, -0.5, 0, 0.5, 1], format="+~g")
    y = a_row_each("stage", [str(row.stage) for row in found], minExtent=int(left), maxExtent=int(left))
    colour = coloured(
        "verdict", [*_VERDICTS], [*_VERDICTS.values()], symbolType="circle", columns=max(1, int(plot / 130))
    )
    tip = alt.Tooltip("words:N", title="difference")
    values = [*_rows(found)]
    known = [row for row in values if row["most"] is not None]
    unsure = [row for row in values if row["most"] is None and row["delta"] is not None]
    shade: list[Row] = [{"low": -NEGLIGIBLE, "most": NEGLIGIBLE}]
    most, at = alt.X2("most:Q"), moved(x, "delta:Q")
    words = alt.MarkDef("text", style="soft", align="right", dx=_SHIFT - 4)
    layers = [
        data.marks(shade, alt.MarkDef("rect", style="band"), x, most),
        data.marks([{"low": 0}], alt.MarkDef("rule", style="zero"), x),
        data.marks(known, alt.MarkDef("rule", strokeWidth=2), x, most, y, colour, tip),
        data.marks(known, alt.MarkDef("point", filled=True, size=60, opacity=1), at, y, colour, tip),
        data.marks(unsure, alt.MarkDef("point", size=60), at, y, colour, tip),
        data.marks(values, words, y, alt.Text("shift:N"), tip, fixed_place(alt.XValue, plot)),
    ]
    return {"layer": layers, "width": plot, "height": {"step": _STEP}, "title": panel_heading(topology or "all links")}


def _rows(found: tuple[ComparisonRow, ...]) -> Iterator[Row]:
    for row in found:
        low, most = row.delta_within or (None, None)
        yield {
            "stage": str(row.stage),
            "delta": None if delta(row) == MISSING else row.delta,
            "low": low,
            "most": most,
            "verdict": _FEW if row.excludes_zero is None else verdict(row),
            "shift": signed(row.shift_s) if is_shift_resolved(row) else "not resolved",
            "words": f"{shift(row)}, delta {delta(row)}",
        }
