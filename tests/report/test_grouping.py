"""What figures are split by, and what stands beside each part."""

import dataclasses
import re
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from hwd.config.playbook.playbook import load_playbook
from hwd.config.playbook.playbook_schema import Cut
from hwd.report import RunReport, stage_table
from hwd.report.conditions import RunTimings
from hwd.report.figures.figures import Figures, distributions, links, typical_figures
from hwd.report.figures.render import specification
from hwd.report.grouping import compared_with, group_samples, notes, split_by, swept
from hwd.report.page.html import html
from hwd.timeline import StageName, Timeline
from hwd_drivers.core.errors import ConfigError

from .stage import dwelt, make_run, make_timeline, negotiating

PLAYBOOKS = Path(__file__).parents[2] / "playbooks"


@pytest.fixture
def negotiated() -> RunReport:
    """Auto-negotiation on, then off, on NICs that the testbed file gives the times of negotiating ones."""
    timelines = [negotiating(seed, words) for seed, words in enumerate(["on"] * 3 + ["off"] * 3)]
    return make_run(
        timelines=tuple(timelines), asks="report: {by: [sweep, topology, stage], compare_with: opus-testbed}\n"
    )


def condition(figure: str) -> str:
    """The first words in brackets."""
    return figure.partition("(")[2].partition(")")[0]


def firmware(report: RunReport) -> dict[tuple[str, ...], tuple[float, list[str]]]:
    rows = stage_table([report], by=split_by([report], None), compare_with=compared_with([report]))
    return {
        row.group: (row.median_s or 0.0, [*map(condition, row.papers)])
        for row in rows
        if row.stage is StageName.FIRMWARE
    }


def test_swept_values_have_rows_of_their_own_each_beside_the_figure_of_its_own_setting(negotiated: RunReport) -> None:
    found = firmware(negotiated)
    assert list(found) == [("negotiates=on", "pairs"), ("negotiates=off", "pairs")]
    (on_s, beside_on), (off_s, beside_off) = found.values()
    assert 5.5 < on_s < 6.5
    assert 2.5 < off_s < 3.5
    assert beside_on == ["auto-negotiation", "rapid repeats"]
    assert beside_off == ["no auto-negotiation", "rapid repeats"]


def test_setting_in_force_counts_and_not_the_text_of_the_testbed() -> None:
    report = make_run(timelines=(make_timeline(autoneg=False),))
    assert report.lab.named == {"polatis-opus", "opus-cx6dx-autoneg"}
    (under,) = group_samples([report], ()).conditions.values()
    assert under.autoneg == {False}
    h0_only = RunTimings(nics={"h0": "opus-cx6dx-autoneg"}).conditions(report.timelines[0])
    assert h0_only.timings == {"opus-cx6dx"}


def test_on_hardware_the_settings_say_which_figure_is_meant(negotiated: RunReport) -> None:
    found = firmware(dataclasses.replace(negotiated, lab=RunTimings()))
    assert [beside[0] for _, beside in found.values()] == ["auto-negotiation", "no auto-negotiation"]
    untouched = [msgspec.structs.replace(one, settings={}) for one in negotiated.timelines]
    found = firmware(dataclasses.replace(negotiated, lab=RunTimings(), timelines=tuple(untouched)))
    assert [len(beside) for _, beside in found.values()] == [3, 3], "nobody knows which"


def test_swept_values_are_apart_in_figures_too(negotiated: RunReport) -> None:
    drawn = Figures.of([negotiated], by=(Cut.SWEEP,), compare_with="opus", comparisons=()).all
    names = [one.name for one in drawn]
    for of_each in ("links-by-stage", "links-by-repeat"):
        assert [name for name in names if name.startswith(of_each)] == [
            f"{of_each}-negotiates_on", f"{of_each}-negotiates_off",
        ]  # fmt: skip
    assert len([name for name in names if "negotiates" in name]) == 6, "and a waterfall of each"
    curves = distributions([negotiated], (Cut.SWEEP,), "opus")
    assert curves is not None
    assert "negotiates=on" in curves.description
    assert "negotiates=off" in curves.description


def test_page_tells_a_total_for_each_value_and_no_mixture(negotiated: RunReport) -> None:
    facts = dict(re.findall(r"<b>([^<]*)</b><span>from command to first transfer, ([^<]*)</span>", html([negotiated])))
    assert sorted(facts.values()) == [
        "median of 12 in 3 reconfigurations, negotiates=off, pairs",
        "median of 12 in 3 reconfigurations, negotiates=on, pairs",
    ]
    by_words = {
        words.partition("=")[2].partition(",")[0]: float(value.removesuffix(" s")) for value, words in facts.items()
    }
    assert 3 < by_words["off"] < 4 < 6 < by_words["on"] < 7


def test_runs_compared_have_a_total_each() -> None:
    page = html([make_run("a"), make_run("b", virtual_time=True)])
    found = re.findall(
        r"<span>from command to first transfer, median of (\d+) in \d reconfigurations?, ([ab], \w+)</span>", page
    )
    assert sorted(found) == [("4", "a, pairs"), ("4", "b, pairs"), ("8", "a, ring"), ("8", "b, ring")]


def groups(report: RunReport, *by: str) -> set[tuple[str, ...]]:
    return {row.group for row in stage_table([report], by=by)}


def test_dwells_between_which_durations_differ_have_rows_totals_and_maps_of_their_own() -> None:
    timelines = (dwelt(0, None), dwelt(1, 3.5, slow=True), dwelt(2, 5.5), dwelt(3, 3.4, slow=True), dwelt(4, 5.6))
    report = make_run(timelines=timelines)
    short, long, unknown = "dwell 3.400 to 3.500 s", "dwell 5.500 to 5.600 s", "dwell unknown"
    assert groups(report, Cut.TOPOLOGY) == {("ring", short), ("ring", long), ("ring", unknown)}
    turnarounds = {
        row.group[1]: row.median_s or 0
        for row in stage_table([report], by=(Cut.TOPOLOGY,))
        if row.stage is StageName.TURNAROUND
    }
    assert 6 < turnarounds[short] < 7
    assert 3 < turnarounds[long] < 4
    page = html([report])
    assert "Run 20270110-a1b2, ring: durations fall into humps by dwell" in page
    assert "are not pooled: 3.400 to 3.500 s, 5.500 to 5.600 s, unknown" in page
    assert len(re.findall(r"<span>from command to first transfer, [^<]*dwell", page)) == 3
    maps = [one.title for one in links(report)]
    assert maps == [f"Links by stage · {words}" for words in (short, long, unknown)] + ["Links by repeat: turnaround"]


def test_dwells_with_like_durations_are_pooled() -> None:
    report = make_run(timelines=tuple(dwelt(seed, dwell_s) for seed, dwell_s in enumerate((None, 5.0, 20.0, 450.0))))
    assert groups(report, Cut.TOPOLOGY) == {("ring",)}
    assert [*notes(report)] == []


def test_topologies_that_are_told_apart_need_no_dwell() -> None:
    timelines = [dwelt(1, 3.5, slow=True), dwelt(2, 5.5, what="pairs"), dwelt(3, 3.4, slow=True)]
    report = make_run(timelines=tuple(timelines))
    assert groups(report, Cut.TOPOLOGY) == {("ring",), ("pairs",)}
    assert len(groups(report)) == 2


def test_a_difference_by_the_sweep_is_not_told_as_one_by_dwell() -> None:
    def swept_and_dwelt(seed: int, on: bool) -> Timeline:
        timeline = make_timeline(seed, sweep={"negotiates": on}, autoneg=on)
        return replace(timeline, links=[replace(link, dwell_s=9.0 if on else 20.0) for link in timeline.links])

    report = make_run(timelines=tuple(swept_and_dwelt(seed, seed % 2 == 0) for seed in range(8)))
    assert [*notes(report)] == []


def test_typical_waterfalls_show_one_topology_and_name_their_runs() -> None:
    first = make_run("a", timelines=(make_timeline(1, what="ring"), make_timeline(2, what="pairs", links=6)))
    second = make_run("b", timelines=(make_timeline(3, what="ring"),))
    found = [*typical_figures([first, second])]
    assert all(figure.title.endswith(": ring") for figure in found)
    charts = [specification(figure, 1160) for figure in found]
    named = [chart["title"]["subtitle"][0] for chart in charts]
    assert named == ["run 20270110-a1b2, reconfiguration r1, dwell unknown",
                     "run 20270110-a1b2, reconfiguration r3, dwell unknown"]  # fmt: skip
    ends = [panel["layer"][0]["encoding"]["x"]["scale"] for chart in charts for panel in chart["vconcat"][0]["hconcat"]]
    assert ends[:3] == ends[3:], "what is compared by eye has one scale"


def test_a_topology_that_moved_nothing_is_said_to_have_stayed() -> None:
    page = html([make_run(timelines=(make_timeline(1), make_timeline(2, what="pairs", links=0, kept=3)))])
    assert "stayed, as it was there before: pairs." in page


def test_links_can_be_split_by() -> None:
    groups = {row.group for row in stage_table([make_run(repeats=2)], by=(Cut.LINK, Cut.STAGE))}
    assert ("h0.eth0<->h1.eth2",) in groups
    assert len(groups) == 4


def test_part_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"by moon: figures cannot be split by it. Use topology, stage, link, sweep"):
        stage_table([make_run()], by=("topology", "moon"))


@pytest.mark.parametrize("part", ["switch", "moon"])
def test_part_that_nobody_knows_is_refused_when_the_playbook_is_read(part: str, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(f"playbook: p\nsteps: [note: a]\nreport: {{by: [topology, {part}]}}\n")
    (problem,) = load_playbook(path).problems
    assert str(problem).startswith(f"{path}:3: ")
    assert "sweep" in str(problem)


def test_several_runs_are_apart_unless_it_is_said_otherwise(negotiated: RunReport) -> None:
    assert split_by([negotiated], None) == (Cut.SWEEP, Cut.TOPOLOGY, Cut.STAGE)
    assert split_by([negotiated, negotiated], None) == (Cut.RUN, Cut.SWEEP, Cut.TOPOLOGY, Cut.STAGE)
    assert split_by([negotiated, make_run()], None)[:1] == (Cut.RUN,)
    assert split_by([negotiated, negotiated], ("topology",)) == (Cut.TOPOLOGY,)


def test_text_that_another_yaml_takes_for_a_date_stays_a_text() -> None:
    """YAML 1.1 sees a thirteenth month in it, and stumbles."""
    report = make_run(asks="parameters: {since: 2027-13-45, off: 1:30}\nreport: {compare_with: opus-testbed}\n")
    assert compared_with([report]) == "opus-testbed"
    run = replace(report.run, testbed_text=report.run.testbed_text + "since: 2027-13-45\n")
    assert RunTimings.of(run).named == {"polatis-opus", "opus-cx6dx-autoneg"}


@pytest.mark.parametrize("text", ["", "{", "- a\n", "report: [1]\n", "report: {by: [switch]}\n", "\x00"])
def test_playbook_that_cannot_be_read_any_more_has_the_usual_report(text: str) -> None:
    report = make_run()
    old = dataclasses.replace(report, run=replace(report.run, playbook_text=text, testbed_text=text))
    assert compared_with([old]) is None
    assert Cut.SWEEP in split_by([old], None)
    assert RunTimings.of(old.run) == RunTimings()


def test_shipped_playbooks_that_sweep_are_cut_by_what_they_sweep() -> None:
    for name in ("opus-timeline", "rapid-repeats"):
        assert load_playbook(PLAYBOOKS / f"{name}.yaml").require().report.by[0] == Cut.SWEEP
    assert swept({"a": True, "b": 0.5, "c": "on"}) == "a=true, b=0.5, c=on"
