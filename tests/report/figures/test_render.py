"""Figures as SVG and PDF files: their size, their text, strangers' characters; the PDF is read by another library."""

import io
import math
import re
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any
from xml.etree import ElementTree

import altair as alt
import jsonschema  # type: ignore[import-untyped]
import pypdf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwd.report import RunReport, compare
from hwd.report.figures.bars import CHAIN
from hwd.report.figures.cdf import TOGETHER_MAX
from hwd.report.figures.figure import (
    DOUBLE_IN,
    GROUP_COLOURS,
    PAPER_WIDTHS,
    SCREEN_WIDTHS,
    SINGLE_IN,
    STAGE_COLOURS,
    Chart,
    Datasets,
    Figure,
    cut,
    heading,
    named,
    wrapped,
)
from hwd.report.figures.figures import Figures
from hwd.report.figures.render import pdf, script, specification, specifications, svg
from hwd.timeline import StageName

from ..stage import make_run


def all_of(reports: Sequence[RunReport]) -> list[Figure]:
    comparisons = [compare(reports[0], one) for one in reports[1:]]
    return Figures.of(reports, by=("run", "topology"), compare_with="mfabric", comparisons=comparisons).all


def written(figures: Sequence[Figure], width_in: float) -> pypdf.PdfReader:
    to = io.BytesIO()
    pdf(figures, to, width=PAPER_WIDTHS[width_in], width_in=width_in, title="runs")
    return pypdf.PdfReader(io.BytesIO(to.getvalue()))


@pytest.fixture(scope="module")
def figures() -> list[Figure]:
    """Of two runs."""
    return all_of([make_run("a"), make_run("b")])


def of_words(words: str) -> Figure:
    def chart(width: float, data: Datasets) -> Chart:
        mark = data.marks([{"words": words}], alt.MarkDef("text"), alt.Text("words:N"))
        return {"layer": [mark], "title": heading(words, [words], width)}

    return Figure(name="x", title=words, description=words, chart=chart)


def test_a_long_title_is_whole_in_a_narrow_figure() -> None:
    title = "Links by stage · pairs · dwell 3.352 to 3.634 s"
    found = specification(of_words(title), SCREEN_WIDTHS[-1])["title"]["text"]
    assert len(found) == 2
    assert " ".join(found) == title


@settings(max_examples=25)
@given(st.text())
def test_any_text_stays_a_text(words: str) -> None:
    root = ElementTree.fromstring(svg(of_words(words), 300))
    tags = {part.tag.rpartition("}")[2] for part in root.iter()}
    assert tags <= {"svg", "title", "desc", "g", "rect", "path", "text", "defs", "clipPath", "tspan"}


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("<b>&\"'主±", "<b>&\"'主±"),
        ("\x00\x1b\ud800\ufffe\u202e", r"\x00\x1b\ud800\ufffe\u202e"),
        ("${alert(1)}", "${alert(1)}"),
        ("{{1}}", "{{1}}"),
        ("if", "if\u00a0"),
    ],
)
def test_strangers_characters_do_not_break_it(words: str, shown: str) -> None:
    root = ElementTree.fromstring(svg(of_words(words), 300))
    (desc,) = [part.text for part in root if part.tag.endswith("}desc")]
    assert desc == shown


def test_figures_are_as_wide_as_was_asked_for_and_have_their_numbers_in_words(figures: list[Figure]) -> None:
    for one in figures:
        for width, width_in in ((PAPER_WIDTHS[DOUBLE_IN], DOUBLE_IN), *((width, None) for width in SCREEN_WIDTHS[::2])):
            root = ElementTree.fromstring(svg(one, width, width_in=width_in))
            found = float(root.get("viewBox", "").split()[2])
            assert root.get("width") == ("7in" if width_in else f"{found:g}")
            assert found <= width * 1.08 + 4, (one.name, width)
            assert one.name == "by-pairs" or found > width * 0.85, (one.name, width)
        assert re.search(r"\d", one.description), one.name
        wide, *narrow = specifications(one)  # a page has the data of all widths once
        assert wide["datasets"]
        assert all("datasets" not in other for other in narrow)
        for other in (wide, *narrow):
            assert names_of_data(other) <= set(wide["datasets"])


@pytest.mark.parametrize("width_in", PAPER_WIDTHS)
def test_each_figure_is_a_page_as_wide_as_the_column_that_can_be_read_and_searched(
    figures: list[Figure], width_in: float
) -> None:
    read = written(figures, width_in)
    assert len(read.pages) == len(figures) >= 7
    assert [str(getattr(entry, "title", "")) for entry in read.outline] == [one.title for one in figures]
    words = re.sub(r"\s+", " ", read.pages[0].extract_text())
    assert "fitted" in words
    assert "firmware" in words
    for page in read.pages:
        assert float(page.mediabox.width) == pytest.approx(width_in * 72)
        used = fonts(page)
        assert used
        for font in used:
            assert is_embedded(font), font["/BaseFont"]
        sizes: list[float] = []

        def visit(words: str, matrix: Any, at: Any, font: Any, size: float, sizes: Any = sizes) -> None:
            if words.strip():
                sizes.append(abs(size * matrix[0] * at[0]))

        page.extract_text(visitor_text=visit)
        assert sizes
        assert min(sizes) > 4, "points; the smallest are the bounds under the sums"


def test_names_of_files_are_plain_and_tell_runs_apart() -> None:
    names = [one.name for one in all_of([make_run("a/../b"), make_run("c")])]
    assert len(names) == len(set(names))
    assert "waterfall-a_.._b" in names
    assert named(of_words("x"), "").name == "x"


def test_the_same_figures_give_the_same_bytes_as_svg_and_the_same_text_as_pdf() -> None:
    figures = all_of([make_run("a")])
    once, again = (written(figures[:3], SINGLE_IN) for _ in range(2))
    assert [page.extract_text() for page in once.pages] == [page.extract_text() for page in again.pages]
    assert [svg(one, 864) for one in figures] == [svg(one, 864) for one in all_of([make_run("a")])]


def test_specifications_are_vega_lite_by_its_schema() -> None:
    wide = [(one, SCREEN_WIDTHS[0]) for one in all_of([make_run("a", repeats=2), make_run("b", repeats=2)])]
    narrow = [(one, SCREEN_WIDTHS[-1]) for one in all_of([make_run("a", repeats=2)])]
    schema = jsonschema.Draft7Validator(alt.load_schema())  # one: Altair makes many for each chart
    for one, width in (*wide, *narrow):
        schema.validate(specification(one, width))
    with pytest.raises(jsonschema.ValidationError):
        schema.validate(specification(of_words("x"), 300) | {"layer": "x"})


def test_the_script_of_a_page_defines_vega_embed_and_asks_for_nothing_else() -> None:
    text = script()
    assert "vegaEmbed" in text
    assert len(text) < 1_000_000
    assert "import(" not in text


@given(st.text(alphabet="ab ", max_size=60), st.floats(20, 400))
def test_lines_fit_and_lose_no_word(words: str, width: float) -> None:
    lines = wrapped(words, width)
    assert " ".join(lines).split() == words.split()
    assert all(len(one) * 6 <= width or " " not in one for one in lines)
    assert len(cut(words, width)) <= max(1, width / 6)


def names_of_data(node: Any) -> set[str]:
    match node:
        case {"data": {"name": str(name)}, **rest}:
            return {name} | names_of_data(rest)
        case dict():
            return set[str]().union(*map(names_of_data, node.values()))
        case list():
            return set[str]().union(*map(names_of_data, node))
    return set()


def fonts(page: Any) -> list[Any]:
    """Of the page and of the forms in it."""
    found = [*resources(page["/Resources"])]
    return [font.get_object() for one in found for font in one.get("/Font", {}).values()]


def resources(of: Any) -> list[Any]:
    of = of.get_object()
    found = [of]
    for form in of.get("/XObject", {}).values():
        if "/Resources" in (form := form.get_object()):
            found += resources(form["/Resources"])
    return found


def is_embedded(font: Any) -> bool:
    of = font["/DescendantFonts"][0].get_object() if "/DescendantFonts" in font else font
    return bool({"/FontFile", "/FontFile2", "/FontFile3"} & set(of["/FontDescriptor"].get_object()))


BLINDNESS = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
    "none": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
}
"""Linear RGB as it is seen: Machado, Oliveira and Fernandes (IEEE TVCG 15, 2009), severity 1."""


def lightness_and_hue(colour: str, sight: tuple[tuple[float, ...], ...]) -> tuple[float, ...]:
    """CIE L*a*b* (D65) of a colour as it is seen."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    seen = [min(1.0, max(0.0, sum(a * b for a, b in zip(row, linear, strict=True)))) for row in sight]
    to_xyz = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    white = (0.9505, 1.0, 1.089)
    xyz = [sum(a * b for a, b in zip(row, seen, strict=True)) / limit for row, limit in zip(to_xyz, white, strict=True)]
    x, y, z = [value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in xyz]
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("sight", BLINDNESS)
def test_colours_that_touch_are_told_apart_by_every_sight(sight: str) -> None:
    stages = [STAGE_COLOURS[stage] for _, stage in CHAIN]
    touching = [*pairwise(stages), (stages[0], STAGE_COLOURS[StageName.CONTROL])]
    touching += [*combinations(GROUP_COLOURS[:TOGETHER_MAX], 2)]
    for first, second in touching:
        seen = [lightness_and_hue(colour, BLINDNESS[sight]) for colour in (first, second)]
        assert math.dist(*seen) > 15, (first, second)
