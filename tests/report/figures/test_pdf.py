"""Drawings on paper, read back by another library."""

import io
import re
from collections.abc import Callable, Sequence
from typing import Any

import pypdf
import pytest

from hwd.report import RunReport, compare
from hwd.report.figures.drawing import DOUBLE_IN, PAPER_WIDTHS, SINGLE_IN, Drawing, rect, text
from hwd.report.figures.drawings import drawings
from hwd.report.figures.pdf import pdf

MakeRun = Callable[..., RunReport]


def written(drawn: Sequence[Drawing], width_in: float) -> tuple[bytes, pypdf.PdfReader]:
    to = io.BytesIO()
    pdf(drawn, to, width_in=width_in, title="runs")
    return to.getvalue(), pypdf.PdfReader(io.BytesIO(to.getvalue()))


def all_of(reports: Sequence[RunReport], width_in: float) -> list[Drawing]:
    comparisons = [compare(reports[0], one) for one in reports[1:]]
    by = ("run", "topology")
    width = PAPER_WIDTHS[width_in]
    return [*drawings(reports, by=by, compare_with="mfabric", comparisons=comparisons, width=width)]


def fonts(page: Any) -> list[Any]:
    return [font.get_object() for font in page["/Resources"]["/Font"].values()]


@pytest.mark.parametrize("width_in", [SINGLE_IN, DOUBLE_IN])
def test_each_drawing_is_a_page_as_wide_as_the_column_with_its_fonts_embedded(
    make_run: MakeRun, width_in: float
) -> None:
    drawn = all_of([make_run("a"), make_run("b")], width_in)
    _, read = written(drawn, width_in)
    assert len(read.pages) == len(drawn) >= 7
    for page, drawing in zip(read.pages, drawn, strict=True):
        assert float(page.mediabox.width) == pytest.approx(width_in * 72)
        assert float(page.mediabox.height) == pytest.approx(width_in * 72 * drawing.height / drawing.width)
        used = fonts(page)
        assert used
        for font in used:
            assert "/FontFile2" in font["/FontDescriptor"].get_object(), font["/BaseFont"]


def test_text_is_readable_at_that_size_and_stays_on_the_page(make_run: MakeRun) -> None:
    for width_in in PAPER_WIDTHS:
        drawn = all_of([make_run("a")], width_in)
        _, read = written(drawn, width_in)
        for page in read.pages:
            sizes: list[float] = []
            starts: list[float] = []

            def visit(
                words: str, matrix: Any, at: Any, font: Any, size: float, sizes: Any = sizes, starts: Any = starts
            ) -> None:
                if words.strip():
                    sizes.append(size * matrix[0])
                    starts.append(matrix[0] * at[4] + matrix[4])

            page.extract_text(visitor_text=visit)
            assert min(sizes) > 5, "points; the smallest are the bounds under the totals and cells of heat maps"
            assert sorted(sizes)[len(sizes) // 4] > 5.8
            assert min(starts) >= 0
            assert max(starts) <= float(page.mediabox.width)


def test_outline_names_the_drawings_and_text_can_be_searched(make_run: MakeRun) -> None:
    drawn = all_of([make_run("a")], DOUBLE_IN)
    _, read = written(drawn, DOUBLE_IN)
    assert [str(getattr(entry, "title", "")) for entry in read.outline] == [one.title for one in drawn]
    words = re.sub(r"\s+", " ", read.pages[0].extract_text())
    assert "h0.eth0 - h1.eth2" in words
    assert "fitted" in words


def test_same_drawings_give_the_same_bytes(make_run: MakeRun) -> None:
    drawn = all_of([make_run("a")], SINGLE_IN)
    assert written(drawn, SINGLE_IN)[0] == written(drawn, SINGLE_IN)[0]


def test_what_the_font_has_not_is_a_question_mark_and_breaks_nothing() -> None:
    marks = (text(10, 20, "Wirt 主机 \ud800\x00\u202e ± µ · é"), rect(0, 30, 50, 10, hatched=True))
    drawing = Drawing(name="x", width=200, height=50, title="主机\ud800", description="", marks=marks)
    _, read = written([drawing], SINGLE_IN)
    assert "Wirt ?? ??? ± µ · é" in read.pages[0].extract_text()
