"""Timelines of a live rack, as a client has them."""

import re

import pytest

from hwd.client.timelines import MeasuredTimeline, StageSeconds, Timelines
from hwd.model.link import Link
from hwd.testing.fixtures import Circuit, TimelinesOfTest
from hwd.testing.lab import Lab
from hwd.timeline import LinkTimeline, StageName
from hwd_drivers.core.errors import FailedError


def test_a_figure_says_what_it_is(circuit: Circuit, timeline: TimelinesOfTest) -> None:
    circuit("h0.eth0 <-> h1.eth0")
    turnaround_s = timeline.turnaround_s
    assert isinstance(turnaround_s, StageSeconds)
    assert 0 < turnaround_s < 5
    assert re.fullmatch(r"<turnaround [\d.]+ ms ± [\d.]+ [mµ]s of h0.eth0<->h1.eth0, twin>", repr(turnaround_s))
    head, row = turnaround_s.hwd_table.splitlines()[:2]
    assert row.startswith("h0.eth0<->h1.eth0  ")
    assert all(row[name.start() - 2 :].startswith("  ") for name in re.finditer(r"(?<=  )\S+", head)), "columns"


def test_a_timeline_is_had_by_its_reconfiguration(circuit: Circuit, lab: Lab) -> None:
    made = circuit("h0.eth0 <-> h1.eth0")
    circuit("h0.eth0 <-> h1.eth1")
    assert lab.client.timeline(made.id).reconfiguration == made.id
    with pytest.raises(FailedError, match="reconfiguration nobody: it has no timeline here"):
        lab.client.timeline("nobody")


def test_a_stage_that_is_not_known_is_never_zero(circuit: Circuit, timeline: TimelinesOfTest) -> None:
    """Mirrors that take no time leave no dark that anyone could see."""
    circuit("h0.eth0 <-> h1.eth0", "h0.eth1 <-> h1.eth1")
    circuit("h0.eth0 <-> h1.eth1", "h0.eth1 <-> h1.eth0")
    with pytest.raises(FailedError, match=r"optical of h0.eth\d<->h1.eth\d is never-left: "):
        timeline.seconds("optical")
    with pytest.raises(ValueError, match="'opticle' is not a valid StageName"):
        timeline.seconds("opticle")


def test_what_moved_nothing_has_no_figure(circuit: Circuit, timeline: TimelinesOfTest) -> None:
    circuit("h0.eth0 <-> h1.eth0")
    circuit("h0.eth0 <-> h1.eth0")
    moved = timeline.all
    assert [len(one.moved) for one in moved] in ([1], [1, 0])
    with pytest.raises(FailedError, match="no reconfiguration was timed here"):
        Timelines().last  # noqa: B018 - it raises


def test_a_timeline_is_drawn_in_a_notebook(circuit: Circuit, timeline: TimelinesOfTest) -> None:
    circuit("ring rail=0")
    html = timeline.last._repr_html_()
    assert html.startswith("<svg")
    assert "h0.eth0" in html
    assert timeline.all._repr_html_() == html
    assert f"{timeline.last}".startswith(
        f"{timeline.last.reconfiguration} (ring rail=0): 2 of 2 links moved, turnaround "
    )


def test_the_result_of_a_run_has_its_stages_beside_the_papers(lab: Lab) -> None:
    result = lab.run("smoke")
    assert [one.what for one in result.timelines] == ["pairs", "ring"]
    stages = result.stages(by=(), compare_with="opus-testbed")
    assert {row.stage for row in stages} == set(StageName)
    assert {row["stage"] for row in stages.rows()} == set(StageName)
    assert "opus " in str(stages)
    assert "opus " in stages._repr_html_()
    assert "<svg" in result._repr_html_()
    assert result.html().startswith("<!doctype html>")
    assert lab.client.timelines(result.report.run.id) == result.timelines


def test_two_runs_are_compared(lab: Lab) -> None:
    first, second = lab.run("smoke"), lab.run("smoke", within_s=10)
    compared = first.compare(second)
    assert {row.topology for row in compared.comparison.rows} == {"pairs", "ring"}
    assert "turnaround" in str(compared)
    assert f"Run {second.report.run.id} against run {first.report.run.id}" in compared._repr_html_()
    assert (first.outcome, second.outcome) == ("succeeded", "succeeded")


def test_a_timeline_of_links_that_all_stayed_is_told_without_a_turnaround() -> None:
    stayed = LinkTimeline(link=Link.parse("h0.eth0<->h1.eth0"), kept=True, instants=(), stages=(), dwell_s=None)
    timeline = MeasuredTimeline(
        reconfiguration="k3v9", run=None, what="ring", commands=[], ends=[], links=[stayed], breaches=[]
    )
    assert str(timeline) == "k3v9 (ring): 0 of 1 link moved, turnaround unknown"
