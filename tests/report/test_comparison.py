"""Two runs compared."""

import dataclasses
import json
from xml.etree import ElementTree

import msgspec
from msgspec.structs import replace

from hwd.model.documents.runs import RunJob
from hwd.model.instant import Knowledge
from hwd.model.recorded_run import RunOutcome
from hwd.report import compare
from hwd.report.figures.comparison import comparison_figure
from hwd.report.figures.render import specification, svg
from hwd.report.page.html import html
from hwd.timeline import Stage, StageName, Timeline

from .stage import make_run, make_timeline


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


def test_what_became_slower_is_found_and_nothing_else() -> None:
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


def test_few_reconfigurations_are_remarked() -> None:
    found = compare(make_run("a", repeats=2), make_run("b", repeats=2))
    assert any("fewer than 6 reconfigurations" in remark for remark in found.remarks)
    assert all(row.shift_within_s is None for row in found.rows)
    assert json.loads(msgspec.json.encode(found))["rows"][0]["shift_within_s"] is None


def test_what_makes_runs_hard_to_compare_is_said() -> None:
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


def test_topology_of_one_run_only_is_remarked_and_left_out() -> None:
    more = (*make_run().timelines, make_timeline(what="torus"))
    found = compare(make_run("a"), make_run("b", timelines=more))
    assert "only in run b: torus" in found.remarks
    assert "torus" not in {row.topology for row in found.rows}


def test_page_of_two_runs_has_the_comparison_with_its_origins() -> None:
    page = html([make_run("a"), make_run("b"), make_run("c")])
    assert "Run b against run a" in page
    assert "Run c against run a" in page
    assert page.count("difference of the medians, second minus first") == 2
    assert "against run" not in html([make_run("a")])


def test_figure_has_a_row_for_each_stage_and_survives_hostile_ids() -> None:
    found = compare(make_run("<a&\x00", repeats=14), make_run('"b>\ud800', repeats=14))
    figure = comparison_figure(found)
    for width in (900.0, 411.0):
        ElementTree.fromstring(svg(figure, width))
    drawn = [row for values in specification(figure, 900)["datasets"].values() for row in values if "delta" in row]
    assert {(row["stage"], row["delta"]) for row in drawn} == {(row.stage, row.delta) for row in found.rows}


def test_runs_without_a_stage_in_common_say_why_and_nothing_else() -> None:
    moved, still = make_run("a"), make_run("b", timelines=())
    job = RunJob(
        run="b",
        job="j1",
        entry="moe",
        arguments=[],
        plane="mfabric",
        seconds=[1.0],
        moves=0,
        links=0,
        moving_s=0,
        held_s=0,
    )
    jobs = dataclasses.replace(still, jobs=(job, job))
    aborted = dataclasses.replace(still, run=replace(still.run, id="c", outcome=RunOutcome.ABORTED))
    ends = frozenset((f"h{host}.eth{port}") for host in range(4) for port in range(4))
    kinds = ("dark", "light", "firmware", "carrier", "rdma", "ready")
    blind = make_run("d", timelines=(make_timeline(hide=frozenset((end, kind) for end in ends for kind in kinds)),))
    for first, second, words in (
        (moved, jobs, "run a saw control, optical, firmware, carrier, rdma, ready, turnaround, activation; "
                      "run b moved no link, and its 2 jobs cannot be compared yet"),
        (jobs, jobs, "run b moved no link, and its 2 jobs cannot be compared yet; run b moved no link"),
        (still, moved, "run b moved no link; run a saw control"),
        (aborted, still, "run c, which was aborted, moved no link; run b moved no link"),
        (blind, still, "run d saw control; run b moved no link"),
    ):  # fmt: skip
        found = compare(first, second)
        assert (found.rows, found.remarks) == ((), ())
        start = f"runs {first.run.id} and {second.run.id} have nothing in common to compare: "
        assert found.nothing.startswith(f"{start}{words}")
    page = html([moved, jobs])
    assert f"R{compare(moved, jobs).nothing[1:]}." in page
    assert "2 runs compared" not in page


def test_topology_that_both_moved_and_of_which_they_saw_other_stages_is_named() -> None:
    timeline = make_timeline()
    unseen = tuple(Stage(name=name, knowledge=Knowledge.UNKNOWN, why="no source") for name in StageName)
    silent = replace(timeline, links=[replace(link, stages=unseen) for link in timeline.links])
    found = compare(make_run("a", timelines=(timeline,)), make_run("b", timelines=(silent,)))
    assert found.nothing.endswith("run b saw no stage of the links that it moved")
    assert "have nothing in common to compare of ring: run a saw" in found.nothing


def test_run_that_did_not_succeed_is_compared_and_said_to_be_part_of_one() -> None:
    whole, part = make_run("a"), make_run("b")
    part = dataclasses.replace(part, run=replace(part.run, outcome=RunOutcome.ABORTED))
    found = compare(whole, part)
    assert found.rows
    assert found.nothing == ""
    assert found.remarks[0] == "run b was aborted: what it did until then is compared"
    assert compare(whole, whole).remarks[0] == "both are run a"


def test_sweep_of_one_run_only_is_said_to_be_none_of_the_other() -> None:
    swept = make_run("b", timelines=(make_timeline(sweep={"nics": "ideal"}),))
    assert "the sweep values differ: none in run a and nics=ideal in run b" in compare(make_run("a"), swept).remarks
