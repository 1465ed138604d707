"""Every kind of change in a bundle is found, and named: the figure or table, the row, the field, and both values."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hwd.model.recorded_run import Run, RunOutcome
from hwd.report.bundle import Verification
from hwd.report.bundle.manifest import Program
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import ConfigError

Recorded = tuple[Run, tuple[Document, ...]]
Verified = Callable[[Path], Verification]
Plant = Callable[..., Path]


def member(bundle: Path, name: str) -> bytes:
    with zipfile.ZipFile(bundle) as found:
        return found.read(name)


def edited(bundle: Path, name: str, edit: Callable[[Any], object]) -> dict[str, bytes | None]:
    value = json.loads(member(bundle, name))
    edit(value)
    return {name: json.dumps(value).encode()}


def links_by_stage(bundle: Path) -> str:
    """The first of them: there is one for each topology."""
    with zipfile.ZipFile(bundle) as found:
        return next(name for name in found.namelist() if "links-by-stage" in name).removesuffix(".json")


def told(found: Verification) -> list[str]:
    return [str(one) for one in found.differences]


@pytest.mark.parametrize("end", ["whole", "broken off", "failed", "nothing"])
def test_bundle_is_equal_to_its_records(
    recorded: Recorded, write: Callable[..., Path], verified: Verified, end: str
) -> None:
    run, documents = recorded
    if end == "broken off":
        run = msgspec.structs.replace(run, outcome=None, ended_wall_ns=None)
        documents = documents[: [one.kind for one in documents].index("timeline", 60)]
    elif end == "failed":
        run = msgspec.structs.replace(run, outcome=RunOutcome.FAILED, why="\udc80 \u202e <b>")
    elif end == "nothing":
        documents = ()
    found = verified(write((run, documents), by=["stage"], paper="mfabric"))
    assert told(found) == []
    assert (found.equal, found.tables, found.pages) == (True, 6, 1)
    assert (found.figures > 3) is (end != "nothing")


def test_document_that_was_changed_makes_figures_differ_and_they_are_named(
    bundle: Path, plant: Plant, verified: Verified
) -> None:
    """The instant `rdma` of a link, a millisecond later; its manifest is right again."""
    record = member(bundle, "run.jsonl")
    lines = record.split(b"\n")
    place = next(number for number, line in enumerate(lines) if line.startswith(b'{"kind":"timeline"'))
    timeline = json.loads(lines[place])
    link = timeline["data"]["links"][0]
    [stage] = [one for one in link["stages"] if one["name"] == "rdma"]
    stage["seconds"] += 0.001
    lines[place] = json.dumps(timeline).encode()
    found = verified(plant({"run.jsonl": b"\n".join(lines)}))
    parts = {one.part for one in found.differences}
    assert {"tables/stages", "figures/distributions", links_by_stage(bundle), "report.html"} <= parts
    assert "tables/pairs" not in parts
    rows = [one for one in told(found) if one.startswith("tables/stages: virtual time, ")]
    assert any(": median_s: 0." in one and one.endswith(" s from its records") for one in rows)
    assert not found.equal


def test_instant_that_was_changed_is_named_in_the_waterfall(bundle: Path, plant: Plant, verified: Verified) -> None:
    lines = member(bundle, "run.jsonl").split(b"\n")
    for place, line in enumerate(lines):
        if line.startswith(b'{"kind":"timeline"'):
            timeline = json.loads(line)
            for instant in timeline["data"]["links"][0]["instants"]:
                if instant["name"] == "rdma":
                    for key in ("earliest_ns", "latest_ns", "best_ns"):
                        instant[key] += 1_000_000
            lines[place] = json.dumps(timeline).encode()
            break
    found = verified(plant({"run.jsonl": b"\n".join(lines)}))
    panels = [one for one in found.differences if one.part == "figures/waterfall" and "panel" in one.at]
    assert any(
        one.at.startswith("whole panel, h0.eth0 ↔ h1.eth0, rdma") and one.at.endswith(": end") and one.unit == "s"
        for one in panels
    ), [one.at for one in panels]
    assert any(one.unit == "ms" for one in panels), "the narrow panels are in milliseconds"


def test_value_of_a_figure_that_was_changed_is_named_with_panel_row_and_both_values(
    bundle: Path, plant: Plant, verified: Verified
) -> None:
    was: list[float] = []

    def edit(figure: Any) -> None:
        data = figure["specification"]["datasets"]
        rows = next(
            rows for rows in data.values() if any(str(row.get("stage", "")).startswith("firmware") for row in rows)
        )
        row = next(row for row in rows if row["stage"].startswith("firmware"))
        was.append(row["end"])
        row["end"] += 0.5

    found = verified(plant(edited(bundle, "figures/waterfall.json", edit)))
    [line] = told(found)
    assert line.startswith("figures/waterfall: whole panel, h0.eth0 ↔ h1.eth0, firmware ")
    assert line.endswith(f": end: {was[0] + 0.5} s in the bundle, {was[0]} s from its records")
    assert (found.figures, found.tables, found.pages) == (3, 6, 1)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda figure: figure["specification"]["title"].update(text="better"), 'specification.title.text: "better"'),
        (lambda figure: figure.update(description="all good"), 'description: "all good" in the bundle'),
        (lambda figure: figure["specification"].update(vconcat=[]), "specification.vconcat[0]: nothing in the bundle"),
        (lambda figure: figure["specification"]["datasets"].clear(), "whole panel: rows: nothing in the bundle"),
        (lambda figure: figure["specification"]["datasets"].update(more=[1]), "dataset more, which no mark draws: [1]"),
        (lambda figure: figure.update(specification=7), "specification: 7 in the bundle"),
        (lambda figure: first_mark(figure)["data"].update(values=[{"start": 0, "end": 1}]), "layer[1].data: "),
        (lambda figure: first_mark(figure)["data"].update(url="other.json"), '"url": "other.json"'),
        (lambda figure: first_mark(figure).update(datasets={"x": []}), ".datasets: "),
    ],
)
def test_all_else_of_a_figure_is_compared_too(
    bundle: Path, plant: Plant, verified: Verified, edit: Callable[[Any], object], words: str
) -> None:
    found = verified(plant(edited(bundle, "figures/waterfall.json", edit)))
    assert {one.part for one in found.differences} == {"figures/waterfall"}
    assert any(words in line for line in told(found)), told(found)


def test_row_of_a_figure_that_was_taken_out_is_named(bundle: Path, plant: Plant, verified: Verified) -> None:
    def edit(figure: Any) -> None:
        max(figure["specification"]["datasets"].values(), key=len).pop(2)

    found = verified(plant(edited(bundle, f"{links_by_stage(bundle)}.json", edit)))
    assert {one.part for one in found.differences} == {links_by_stage(bundle)}
    assert any(": row: nothing in the bundle, " in line for line in told(found)), told(found)


@pytest.mark.parametrize(
    ("name", "edit", "line"),
    [
        (
            "tables/stages.json",
            lambda table: table["rows"][0].update(median_s=0.1),
            "tables/stages: virtual time, ocs1:1A-3B,3A-1B,2A-4B,4A-2B, control: median_s: 0.1 s in the bundle, "
            "0.194893674 s from its records",
        ),
        (
            "tables/endings.json",
            lambda table: table["rows"].pop(),
            'tables/endings: 8eop46tj: row: nothing in the bundle, {"reconfiguration": "8eop46tj"',
        ),
        (
            "tables/pairs.json",
            lambda table: table["rows"].append({"pairs": 9, "virtual_time": True}),
            'tables/pairs: true, 9: row: {"pairs": 9, "virtual_time": true} in the bundle, nothing from its records',
        ),
        (
            "tables/run.json",
            lambda table: table["rows"][0].update(events_lost=0, confirmed=True),
            "tables/run: kl27i377: confirmed: true in the bundle, 2 from its records",
        ),
        (
            "tables/run.json",
            lambda table: table.update(rows={}),
            'tables/run: rows: {} in the bundle, [{"run": "kl27i377", "playbook": ',
        ),
        ("tables/endings.json", lambda table: table["rows"].reverse(), "tables/endings: order of rows: "),
    ],
)
def test_row_of_a_table_that_was_changed_is_named(
    bundle: Path, plant: Plant, verified: Verified, name: str, edit: Callable[[Any], object], line: str
) -> None:
    found = verified(plant(edited(bundle, name, edit)))
    [words] = told(found)
    assert words.startswith(line)
    assert (found.figures, found.tables, found.pages) == (4, 5, 1)


def test_text_of_the_page_that_was_changed_is_named_by_its_line(bundle: Path, plant: Plant, verified: Verified) -> None:
    page = member(bundle, "report.html").decode()
    assert page.count("reconfigurations confirmed") == 1
    line = page[: page.index("reconfigurations confirmed")].count("\n") + 1
    found = verified(
        plant({"report.html": page.replace("reconfigurations confirmed", "reconfigurations done").encode()})
    )
    [words] = told(found)
    assert words.startswith(f"report.html: line {line}")
    assert "reconfigurations done" in words
    assert "reconfigurations confirmed" in words
    assert (found.figures, found.tables, found.pages) == (4, 6, 0)


def test_last_digit_of_another_numpy_is_no_difference_and_the_next_one_is(
    bundle: Path, plant: Plant, verified: Verified
) -> None:
    def by(factor: float) -> Callable[[Any], object]:
        return lambda table: table["rows"][0].update(mean_s=table["rows"][0]["mean_s"] * factor)

    assert verified(plant(edited(bundle, "tables/stages.json", by(1 + 1e-12)))).equal
    assert not verified(plant(edited(bundle, "tables/stages.json", by(1 + 1e-8)))).equal


def test_unknown_is_not_zero(bundle: Path, plant: Plant, verified: Verified) -> None:
    def edit(table: Any) -> None:
        assert table["rows"][0]["p99_s"] is None
        table["rows"][0]["p99_s"] = 0

    [line] = told(verified(plant(edited(bundle, "tables/stages.json", edit))))
    assert line.endswith("p99_s: 0 s in the bundle, null from its records")


def test_member_that_the_manifest_says_otherwise_is_named(bundle: Path, plant: Plant, verified: Verified) -> None:
    changed = edited(bundle, "tables/stages.json", lambda table: table["rows"][0].update(median_s=0.1))
    found = verified(plant(changed, rehash=False))
    assert [one.part for one in found.differences] == ["tables/stages", "tables/stages.json"]
    assert "by the manifest" in told(found)[1]
    found = verified(plant({"README.txt": b"trust me"}, rehash=False))
    assert [one.part for one in found.differences] == ["README.txt"]


def test_part_that_is_missing_and_part_that_is_too_much_are_named(
    bundle: Path, plant: Plant, verified: Verified
) -> None:
    found = verified(
        plant({"figures/distributions.json": None, "figures/better.json": b"{}", "tables/pairs.json": None})
    )
    assert told(found) == [
        "tables/pairs: is not in the bundle, and is derived from its records",
        "figures/distributions: is not in the bundle, and is derived from its records",
        "figures/better: no figure, table or page of this name is derived",
    ]


def test_choices_that_were_changed_make_the_tables_differ(plant: Plant, verified: Verified) -> None:
    found = verified(plant({}, manifest=lambda manifest: manifest["report"].update(by=["link"])))
    assert {"tables/stages", "figures/distributions"} <= {one.part for one in found.differences}
    with pytest.raises(ConfigError, match=r"manifest.json: by moon: figures cannot be split by it"):
        verified(plant({}, manifest=lambda manifest: manifest["report"].update(by=["moon"])))


def test_manifest_that_names_another_run_differs(plant: Plant, verified: Verified) -> None:
    [line] = told(verified(plant({}, manifest=lambda manifest: manifest.update(run="other"))))
    assert line == 'manifest.json: run: "other" in the bundle, "kl27i377" from its records'


def test_readme_and_what_the_manifest_says_of_members_are_compared(
    bundle: Path, plant: Plant, verified: Verified
) -> None:
    with zipfile.ZipFile(bundle) as found:
        readme = found.read("README.txt").decode()
    better = readme.replace("virtual time", "real time, measured on hardware")
    assert better != readme
    assert told(verified(plant({"README.txt": better.encode()}))) == [
        "README.txt: is not the text that goes with this run"
    ]

    def measured(manifest: Any) -> None:
        manifest["members"][1]["holds"] = "measured on hardware"

    [line] = told(verified(plant({}, manifest=measured)))
    assert line.startswith('manifest.json: what run.jsonl holds: "measured on hardware" in the bundle')


def made_by(bundle: Path) -> Any:
    with zipfile.ZipFile(bundle) as found:
        return json.loads(found.read("manifest.json"))["made_by"]


def first_mark(figure: Any) -> Any:
    return figure["specification"]["vconcat"][0]["hconcat"][0]["layer"][1]


def test_versions_of_another_program_are_said(bundle: Path, plant: Plant, verified: Verified) -> None:
    def older(manifest: Any) -> None:
        manifest["made_by"].update(version="0.0.9", commit=None)
        manifest["made_by"]["libraries"]["numpy"] = "1.26.0"

    with zipfile.ZipFile(plant({}, manifest=older)) as changed:
        manifest = json.loads(changed.read("manifest.json"))
        readme = changed.read("README.txt").decode()
    before, after = (str(msgspec.convert(one, Program)) for one in (made_by(bundle), manifest["made_by"]))
    found = verified(plant({"README.txt": readme.replace(before, after).encode()}, manifest=older))
    assert found.equal, told(found)
    assert found.unlike[:2] == ("hwd 0.0.9 and 0.1.0", "commit unknown and f934739")
    assert found.unlike[2].startswith("numpy 1.26.0 and ")
