"""Two runs compared."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from msgspec.structs import replace

from hwd.model.instant import Knowledge
from hwd.model.recorded_run import RunOutcome
from hwd.model.run_facts import RunJob
from hwd.report import RunReport, compare
from hwd.report.comparison import verdict
from hwd.report.figures.comparison import comparison_figure
from hwd.report.figures.render import specification, svg
from hwd.report.page.html import html
from hwd.timeline import Stage, StageName, Timeline
from hwd_drivers.core.structs import from_plain

from ..answers import check_golden
from .stage import dwelt, make_run, make_timeline, negotiating


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
    return from_plain(data, Timeline)


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


def of_dwells(id: str, *dwells_s: float | None, count: int = 6, short_s: float = 4.0) -> RunReport:
    timelines = (
        dwelt(n, one := dwells_s[n % len(dwells_s)], slow=one is not None and one < short_s) for n in range(count)
    )
    return make_run(id, timelines=tuple(timelines))


def of_sweep(id: str, *values: str) -> RunReport:
    whats = ["ring"] * 6 + ["pairs"] * 6
    timelines = (negotiating(n, one, what=what) for n, what in enumerate(whats) for one in values)
    return make_run(id, timelines=tuple(timelines))


def without_links(id: str, *jobs: str, outcome: RunOutcome = RunOutcome.SUCCEEDED) -> RunReport:
    report = make_run(id, timelines=())
    told = tuple(
        RunJob(
            run=id, job=job, entry="moe", arguments=[], plane="mfabric", seconds=[1.0], moves=0, links=0, moving_s=0,
            held_s=0,
        )
        for job in jobs
    )  # fmt: skip
    return dataclasses.replace(report, jobs=told, run=replace(report.run, outcome=outcome))


def both() -> Iterator[tuple[str, RunReport, RunReport]]:
    """Two runs, and what is to be seen of them."""
    a, b = make_run("a"), make_run("b")
    yield "few reconfigurations", make_run("a", repeats=2), make_run("b", repeats=2)
    yield "the same run", a, a
    yield "one that was aborted", a, dataclasses.replace(b, run=replace(b.run, outcome=RunOutcome.ABORTED))
    other = make_run("b", virtual_time=True, timelines=(make_timeline(what="torus"),))
    unlike = replace(other.run, testbed_text="x", playbook_text="y", parameters={"repeats": 9}, version="9")
    yield "all that makes runs hard to compare", a, dataclasses.replace(other, run=unlike)
    yield "a topology of one only", a, make_run("b", timelines=(*b.timelines, make_timeline(what="torus")))
    yield "a sweep of one only", a, make_run("b", timelines=(make_timeline(sweep={"nics": "ideal"}),))
    yield "like sweeps", of_sweep("a", "on", "off"), of_sweep("b", "on", "off")
    yield "another value of the sweep in each", of_sweep("a", "on"), of_sweep("b", "off")
    jobs = without_links("b", "j1", "j2")
    yield "links, and jobs without", a, jobs
    yield "jobs without links", jobs, jobs
    yield "no links, and links", without_links("b"), a
    yield "no links of an aborted run", without_links("c", outcome=RunOutcome.ABORTED), without_links("b")
    kinds = ("dark", "light", "firmware", "carrier", "rdma", "ready")
    hidden = frozenset((f"h{host}.eth{port}", kind) for host in range(4) for port in range(4) for kind in kinds)
    yield "links that nobody saw", make_run("d", timelines=(make_timeline(hide=hidden),)), without_links("b")
    timeline = make_timeline()
    unseen = tuple(Stage(name=name, knowledge=Knowledge.UNKNOWN, why="no source") for name in StageName)
    silent = replace(timeline, links=[replace(link, stages=unseen) for link in timeline.links])
    saw, blind = (make_run(id, timelines=(one,)) for id, one in (("a", timeline), ("b", silent)))
    yield "a topology of which they saw other stages", saw, blind
    yield "short and long dwells", of_dwells("a", 3.5, 5.5, count=12), of_dwells("b", 3.6, 5.5, count=12)
    yield "short and long dwells, and long ones", of_dwells("a", 3.5, 5.5, count=12), of_dwells("c", 5.5)
    yield "an unknown dwell", of_dwells("a", None), of_dwells("b", 3.6, short_s=0)
    yield "dwells that are almost the same", of_dwells("a", 3.4, short_s=0), of_dwells("b", 3.5, short_s=0)
    far, further = of_dwells("c", 1.0, 20.0, count=8), of_dwells("d", 20.0, 200.0, count=8, short_s=100)
    yield "other dwells: not the shortest with the shortest", far, further


def test_comparisons_are_what_they_were() -> None:
    lines: list[str] = []
    for words, first, second in both():
        found = compare(first, second)
        lines += [f"== {words}", *found.remarks, *filter(None, [found.nothing])]
        shown = [row for row in found.rows if row.stage in (StageName.FIRMWARE, StageName.TURNAROUND)]
        lines += [f"  {row.topology or 'all'}: {row}; {verdict(row)}" for row in shown]
    check_golden(Path(__file__).with_name("comparisons.txt"), "\n".join([*lines, ""]))


def test_page_of_two_runs_has_the_comparison_with_its_origins() -> None:
    page = html([make_run(id, repeats=2) for id in "abc"])
    assert "Run b against run a" in page
    assert "Run c against run a" in page
    assert page.count("difference of the medians, second minus first") == 2
    moved, jobs = make_run("a", repeats=1), without_links("b", "j1", "j2")
    page = html([moved, jobs])
    assert f"R{compare(moved, jobs).nothing[1:]}." in page
    assert "2 runs compared" not in page


def test_figure_has_a_row_for_each_stage_and_survives_hostile_ids() -> None:
    found = compare(make_run("<a&\x00", repeats=14), make_run('"b>\ud800', repeats=14))
    figure = comparison_figure(found)
    for width in (900.0, 411.0):
        ElementTree.fromstring(svg(figure, width))
    drawn = [row for values in specification(figure, 900)["datasets"].values() for row in values if "delta" in row]
    assert {(row["stage"], row["delta"]) for row in drawn} == {(row.stage, row.delta) for row in found.rows}
