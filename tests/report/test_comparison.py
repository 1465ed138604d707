"""Two runs compared."""

import dataclasses
import json
from collections.abc import Callable
from xml.etree import ElementTree

import msgspec
from msgspec.structs import replace

from hwd.report import RunReport, compare
from hwd.report.figures.comparison import comparison_figure
from hwd.report.figures.render import specification, svg
from hwd.report.page.html import html
from hwd.timeline import StageName, Timeline

MakeRun = Callable[..., RunReport]
MakeTimeline = Callable[..., Timeline]


def slower(timeline: Timeline, by_ns: int) -> Timeline:
    """The same with the answers of switches so much later."""
    data = json.loads(json.dumps(timeline.to_data()))
    for part in (*data["commands"], *data["links"]):
        for instant in part["instants"]:
            if instant["name"] == "acknowledged" and instant["knowledge"] == "seen":
                for key in ("earliest_ns", "latest_ns", "best_ns"):
                    if instant[key] is not None:
                        instant[key] += by_ns
    for link in data["links"]:
        for stage in link["stages"]:
            sign = {"control": 1, "activation": -1}.get(stage["name"], 0)
            if stage["seconds"] is not None:
                stage["seconds"] += sign * by_ns / 1e9
    return msgspec.convert(data, Timeline)


def test_what_became_slower_is_found_and_nothing_else(make_run: MakeRun) -> None:
    first = make_run("a", repeats=14)
    second = dataclasses.replace(
        make_run("b", repeats=14), timelines=tuple(slower(one, 50_000_000) for one in first.timelines)
    )
    found = compare(first, second)
    assert {row.topology for row in found.rows} == {"ring", "pairs"}
    for row in found.rows:
        if row.stage not in (StageName.CONTROL, StageName.ACTIVATION):  # activation begins with the answer
            assert row.excludes_zero is False, str(row)
        if row.stage is StageName.CONTROL:
            assert row.delta == 1
            assert row.shift_within_s is not None
            assert row.shift_within_s[0] < 0.05 < row.shift_within_s[1]
    assert found.remarks == ()


def test_few_reconfigurations_are_remarked(make_run: MakeRun) -> None:
    found = compare(make_run("a", repeats=2), make_run("b", repeats=2))
    assert any("fewer than 6 reconfigurations" in remark for remark in found.remarks)
    assert all(row.shift_within_s is None for row in found.rows)
    assert json.loads(msgspec.json.encode(found))["rows"][0]["shift_within_s"] is None


def test_what_makes_runs_hard_to_compare_is_said(make_run: MakeRun, make_timeline: MakeTimeline) -> None:
    first = make_run("a")
    other = make_run("b", virtual_time=True, timelines=(make_timeline(what="torus"),))
    run = replace(other.run, testbed_text="x", playbook_text="y", parameters={"repeats": 9}, version="9")
    found = compare(first, dataclasses.replace(other, run=run))
    told = " / ".join(found.remarks)
    for words in (
        "the clocks differ: a in real time and b in virtual time",
        "the testbed file was changed",
        "the playbook was changed",
        "the parameters differ: repeats",
        "the versions of hwd differ",
        "no topology in common",
    ):
        assert words in told, words
    assert {row.topology for row in found.rows} == {""}


def test_topology_of_one_run_only_is_remarked_and_left_out(make_run: MakeRun, make_timeline: MakeTimeline) -> None:
    more = (*make_run().timelines, make_timeline(what="torus"))
    found = compare(make_run("a"), make_run("b", timelines=more))
    assert "only in run b: torus" in found.remarks
    assert "torus" not in {row.topology for row in found.rows}


def test_page_of_two_runs_has_the_comparison_with_its_origins(make_run: MakeRun) -> None:
    page = html([make_run("a"), make_run("b"), make_run("c")])
    assert "Run b against run a" in page
    assert "Run c against run a" in page
    assert page.count("difference of the medians, second minus first") == 2
    assert "against run" not in html([make_run("a")])


def test_figure_has_a_row_for_each_stage_and_survives_hostile_ids(make_run: MakeRun) -> None:
    found = compare(make_run("<a&\x00", repeats=14), make_run('"b>\ud800', repeats=14))
    figure = comparison_figure(found)
    for width in (900.0, 411.0):
        ElementTree.fromstring(svg(figure, width))
    drawn = [row for values in specification(figure, 900)["datasets"].values() for row in values if "delta" in row]
    assert {(row["stage"], row["delta"]) for row in drawn} == {(row.stage, row.delta) for row in found.rows}
