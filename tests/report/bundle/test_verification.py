"""Every kind of change in a bundle is found, and named: the figure or table, the row, the field, and both values."""

import json
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hwd.model.recorded_run import RunOutcome
from hwd.report.bundle import Verification
from hwd.report.bundle.manifest import Program
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.structs import from_plain

from ...answers import check_golden
from ..conftest import Recorded
from .conftest import Edit, Plant, Verified, edited, member, with_timeline, write

FOUND = Path(__file__).with_name("differences.txt")
WATERFALL, STAGES, ENDINGS, RUN = (
    "figures/waterfall.json",
    *(f"tables/{of}.json" for of in ("stages", "endings", "run")),
)


def links_by_stage(bundle: Path) -> str:
    """The first of them: there is one for each topology."""
    with zipfile.ZipFile(bundle) as found:
        return next(name for name in found.namelist() if "links-by-stage" in name).removesuffix(".json")


def told(found: Verification) -> list[str]:
    return [str(one) for one in found.differences]


def first_mark(figure: Any) -> Any:
    return figure["specification"]["vconcat"][0]["hconcat"][0]["layer"][1]


def later(figure: Any) -> None:
    rows = [row for rows in figure["specification"]["datasets"].values() for row in rows]
    next(row for row in rows if str(row.get("stage", "")).startswith("firmware"))["end"] += 0.5


def first_row(**changed: object) -> Edit:
    return lambda table: table["rows"][0].update(changed)


EDITS: list[tuple[str, str, Edit]] = [
    ("a bar that ends later", WATERFALL, later),
    ("a title", WATERFALL, lambda figure: figure["specification"]["title"].update(text="better")),
    ("a description", WATERFALL, lambda figure: figure.update(description="all good")),
    ("no panels", WATERFALL, lambda figure: figure["specification"].update(vconcat=[])),
    ("no rows", WATERFALL, lambda figure: figure["specification"]["datasets"].clear()),
    ("rows of no mark", WATERFALL, lambda figure: figure["specification"]["datasets"].update(more=[1])),
    ("no specification", WATERFALL, lambda figure: figure.update(specification=7)),
    ("values", WATERFALL, lambda figure: first_mark(figure)["data"].update(values=[{"start": 0, "end": 1}])),
    ("an address", WATERFALL, lambda figure: first_mark(figure)["data"].update(url="other.json")),
    ("data of a mark", WATERFALL, lambda figure: first_mark(figure).update(datasets={"x": []})),
    ("a row of a figure", "", lambda figure: max(figure["specification"]["datasets"].values(), key=len).pop(2)),
    ("a duration", STAGES, first_row(median_s=0.1)),
    ("what was unknown", STAGES, first_row(p99_s=0)),
    ("a row less", ENDINGS, lambda table: table["rows"].pop()),
    ("another order", ENDINGS, lambda table: table["rows"].reverse()),
    ("a row more", "tables/pairs.json", lambda table: table["rows"].append({"pairs": 9, "virtual_time": True})),
    ("another type", RUN, first_row(events_lost=0, confirmed=True)),
    ("no list of rows", RUN, lambda table: table.update(rows={})),
]


def test_what_was_edited_is_named_with_both_values(bundle: Path, plant: Plant, verified: Verified) -> None:
    lines = []
    for words, name, edit in EDITS:
        found = verified(plant(edited(bundle, name or f"{links_by_stage(bundle)}.json", edit)))
        lines.append(f"== {words}: {found.figures} figures, {found.tables} tables, {found.pages} pages are equal")
        lines += [line if len(line) < 240 else f"{line[:240]}..." for line in told(found)]
    check_golden(FOUND, "\n".join([*lines, ""]))


@pytest.mark.parametrize("end", ["broken off", "failed", "nothing"])
def test_bundle_is_equal_to_its_records(recorded: Recorded, tmp_path: Path, verified: Verified, end: str) -> None:
    run, documents = recorded
    if end == "broken off":
        run = msgspec.structs.replace(run, outcome=None, ended_wall_ns=None)
        documents = documents[: [one.kind for one in documents].index("timeline", 60)]
    elif end == "failed":
        run = msgspec.structs.replace(run, outcome=RunOutcome.FAILED, why="\udc80 \u202e <b>")
    elif end == "nothing":
        documents = ()
    found = verified(write(tmp_path / "made.hwd.zip", (run, documents), by=["stage"], paper="mfabric"))
    assert told(found) == []
    assert (found.equal, found.tables, found.pages) == (True, 6, 1)
    assert (found.figures > 3) is (end != "nothing")


def test_document_that_was_changed_makes_figures_differ_and_they_are_named(
    bundle: Path, plant: Plant, verified: Verified
) -> None:
    """A millisecond more of the stage `rdma`, then of its instant; the manifest is right again."""

    def longer(link: Any) -> None:
        next(one for one in link["stages"] if one["name"] == "rdma")["seconds"] += 0.001

    found = verified(plant(with_timeline(bundle, longer)))
    parts = {one.part for one in found.differences}
    assert {"tables/stages", "figures/distributions", links_by_stage(bundle), "report.html"} <= parts
    assert "tables/pairs" not in parts
    rows = [one for one in told(found) if one.startswith("tables/stages: virtual time, ")]
    assert any(": median_s: 0." in one and one.endswith(" s from its records") for one in rows)
    assert not found.equal

    def later(link: Any) -> None:
        instant = next(one for one in link["instants"] if one["name"] == "rdma")
        instant.update({key: instant[key] + 1_000_000 for key in ("earliest_ns", "latest_ns", "best_ns")})

    found = verified(plant(with_timeline(bundle, later)))
    panels = [one for one in found.differences if one.part == "figures/waterfall" and "panel" in one.at]
    assert any(
        one.at.startswith("whole panel, h0.eth0 ↔ h1.eth0, rdma") and one.at.endswith(": end") and one.unit == "s"
        for one in panels
    ), [one.at for one in panels]
    assert any(one.unit == "ms" for one in panels), "the narrow panels are in milliseconds"


def test_text_of_the_page_that_was_changed_is_named_by_its_line(bundle: Path, plant: Plant, verified: Verified) -> None:
    page = member(bundle, "report.html").decode()
    was, now = "reconfigurations confirmed", "reconfigurations done"
    assert page.count(was) == 1
    found = verified(plant({"report.html": page.replace(was, now).encode()}))
    [words] = told(found)
    assert words.startswith(f"report.html: line {page[: page.index(was)].count(chr(10)) + 1}")
    assert was in words
    assert now in words
    assert (found.figures, found.tables, found.pages) == (4, 6, 0)


def test_last_digit_of_another_numpy_is_no_difference_and_the_next_one_is(
    bundle: Path, plant: Plant, verified: Verified
) -> None:
    def by(factor: float) -> Edit:
        return lambda table: table["rows"][0].update(mean_s=table["rows"][0]["mean_s"] * factor)

    assert verified(plant(edited(bundle, STAGES, by(1 + 1e-12)))).equal
    assert not verified(plant(edited(bundle, STAGES, by(1 + 1e-8)))).equal


def test_member_that_the_manifest_says_otherwise_is_named(bundle: Path, plant: Plant, verified: Verified) -> None:
    found = verified(plant(edited(bundle, STAGES, first_row(median_s=0.1)), rehash=False))
    assert [one.part for one in found.differences] == ["tables/stages", "tables/stages.json"]
    assert "by the manifest" in told(found)[1]
    found = verified(plant({"README.txt": b"trust me"}, rehash=False))
    assert [one.part for one in found.differences] == ["README.txt"]


def test_part_that_is_missing_and_part_that_is_too_much_are_named(plant: Plant, verified: Verified) -> None:
    changed = {"figures/distributions.json": None, "figures/better.json": b"{}", "tables/pairs.json": None}
    assert told(verified(plant(changed))) == [
        "tables/pairs: is not in the bundle, and is derived from its records",
        "figures/distributions: is not in the bundle, and is derived from its records",
        "figures/better: no figure, table or page of this name is derived",
    ]


def test_manifest_and_readme_that_were_changed_differ(bundle: Path, plant: Plant, verified: Verified) -> None:
    found = verified(plant({}, manifest=lambda manifest: manifest["report"].update(by=["link"])))
    assert {"tables/stages", "figures/distributions"} <= {one.part for one in found.differences}
    with pytest.raises(ConfigError, match=r"manifest.json: by moon: figures cannot be split by it"):
        verified(plant({}, manifest=lambda manifest: manifest["report"].update(by=["moon"])))
    [line] = told(verified(plant({}, manifest=lambda manifest: manifest.update(run="other"))))
    assert line == 'manifest.json: run: "other" in the bundle, "kl27i377" from its records'
    measured = plant({}, manifest=lambda manifest: manifest["members"][1].update(holds="measured on hardware"))
    [line] = told(verified(measured))
    assert line.startswith('manifest.json: what run.jsonl holds: "measured on hardware" in the bundle')
    better = member(bundle, "README.txt").replace(b"virtual time", b"real time, measured on hardware")
    [line] = told(verified(plant({"README.txt": better})))
    assert line == "README.txt: is not the text that goes with this run"


def test_versions_of_another_program_are_said(bundle: Path, plant: Plant, verified: Verified) -> None:
    def older(manifest: Any) -> None:
        manifest["made_by"].update(version="0.0.9", commit=None)
        manifest["made_by"]["libraries"]["numpy"] = "1.26.0"

    changed = plant({}, manifest=older)
    before, after = (
        str(from_plain(json.loads(member(path, "manifest.json"))["made_by"], Program)) for path in (bundle, changed)
    )
    readme = member(changed, "README.txt").decode().replace(before, after).encode()
    found = verified(plant({"README.txt": readme}, manifest=older))
    assert found.equal, told(found)
    assert found.unlike[:2] == ("hwd 0.0.9 and 0.1.0", "commit unknown and f934739")
    assert found.unlike[2].startswith("numpy 1.26.0 and ")
