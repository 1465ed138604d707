"""Drawings as SVG files."""

from collections.abc import Callable
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.report import RunReport
from hwd.report.figures.drawing import (
    DOUBLE_IN,
    PAPER_WIDTHS,
    Curve,
    Dot,
    Drawing,
    Text,
    cut,
    line,
    pair,
    rect,
    text,
    wrapped,
)
from hwd.report.figures.drawings import drawings, named
from hwd.report.figures.svg import svg

MakeRun = Callable[..., RunReport]


def drawing(words: str) -> Drawing:
    marks = (
        text(1, 2, words, kind="soft", title=words),
        pair(1, 2, words, words),
        rect(0, 0, 5, 5, fill="#fff", title=words),
        Dot(x=1, y=1, radius=2, colour="#000000", title=words),
        line(0, 0, 1, 1, kind="grid"),
    )
    return Drawing(name="x", width=100, height=50, title=words, description=words, marks=marks)


@given(st.text())
def test_any_text_stays_a_text(words: str) -> None:
    root = ElementTree.fromstring(svg(drawing(words)))
    tags = {part.tag.rpartition("}")[2] for part in root.iter()}
    assert tags <= {"svg", "title", "desc", "style", "defs", "pattern", "line", "rect", "text", "tspan", "circle"}


def test_text_that_xml_can_hold_is_whole() -> None:
    words = "<b>&\"'主\t±"
    root = ElementTree.fromstring(svg(drawing(words)))
    assert {"".join(part.itertext()) for part in root.iter() if part.tag.endswith("desc")} == {words}


def test_control_characters_and_half_pairs_do_not_break_it() -> None:
    ElementTree.fromstring(svg(drawing("\x00\x1b\ud800\ufffe")))


def test_paper_has_its_size_and_no_night(make_run: MakeRun) -> None:
    drawn = drawings([make_run()], by=("topology",), compare_with=None, comparisons=(), width=PAPER_WIDTHS[DOUBLE_IN])
    for one in drawn:
        text_of = svg(one, width_in=DOUBLE_IN)
        root = ElementTree.fromstring(text_of)
        assert root.get("width") == "7in"
        assert "prefers-color-scheme" not in text_of
        assert "prefers-color-scheme" in svg(one)


@pytest.mark.parametrize("width", [411.0, 864.0, 1180.0])
def test_every_mark_lies_on_the_drawing(make_run: MakeRun, width: float) -> None:
    for one in drawings([make_run()], by=("topology",), compare_with="mfabric", comparisons=(), width=width):
        assert one.width == width
        for mark in one.marks:
            match mark:
                case Text():
                    assert 0 <= mark.x <= width, mark
                    assert 0 <= mark.y <= one.height, mark
                case Curve():
                    assert all(-1 <= x <= width + 1 and -1 <= y <= one.height + 1 for x, y in mark.points), mark


def test_names_of_files_are_plain_and_tell_runs_apart(make_run: MakeRun) -> None:
    runs = [make_run("a/../b"), make_run("c")]
    names = [one.name for one in drawings(runs, by=("run",), compare_with=None, comparisons=(), width=864)]
    assert len(names) == len(set(names))
    assert "waterfall-a_.._b" in names
    assert named(drawing("x"), "").name == "x"


@given(st.text(alphabet="ab ", max_size=60), st.floats(20, 400))
def test_lines_fit_and_lose_no_word(words: str, width: float) -> None:
    lines = wrapped(words, width)
    assert " ".join(lines).split() == words.split()
    assert all(len(one) * 6 <= width or " " not in one for one in lines)
    assert len(cut(words, width)) <= max(1, width / 6)
