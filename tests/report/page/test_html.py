"""The page, and what it is made from."""

import dataclasses
import functools
import re
from html.parser import HTMLParser
from typing import Any

from msgspec.structs import replace

from hwd.model.host import HostLost
from hwd.model.instant import Origin
from hwd.model.reconfiguration import ReconfigurationEnded, ReconfigurationStarted, StartedMove
from hwd.model.recorded_run import RunOutcome
from hwd.model.run_facts import RunStarted, RunStep
from hwd.report.conditions import RunTimings
from hwd.report.figures.waterfall import typical
from hwd.report.page.html import escape, html
from hwd.report.run_report import of_documents
from hwd.report.switch_commands import SwitchCommands
from hwd.timeline import StageName
from hwd_drivers.core.documents import Document, Fact

from ...texts import pairs_of, timeline_of
from ..stage import make_run, make_timeline

VOID = {"meta", "br", "!doctype"}


class Page(HTMLParser):
    """Checks that tags are balanced; collects text, ids and everything that could reach the network."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.words: list[str] = []
        self.reaches: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if (id := named.get("id")) is not None:
            self.ids.append(id)
        self.reaches += [f"{tag} {name}" for name in named if name in ("src", "href", "action", "onload", "onerror")]
        if tag in ("link", "iframe", "img"):
            self.reaches.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@functools.cache
def usual() -> str:
    """The page of a run without anything special."""
    return html([make_run()])


def test_page_is_whole_and_alone() -> None:
    text = html([make_run(), make_run("b7", virtual_time=True)])
    page = Page(text)
    assert page.reaches == []
    assert len(page.ids) == len(set(page.ids))
    assert "@import" not in text
    assert "url(http" not in text
    assert "real time" in text
    assert "virtual time" in text
    assert "prefers-color-scheme:dark" in text


def test_page_says_where_figures_come_from_and_what_the_run_was() -> None:
    words = " ".join(Page(usual()).words)
    for expected in (
        "fitted to it",
        "never called reproduced",
        "0042",
        "6.6.1",
        "f934739",
        "polatis-opus",
        "repeats",
        "6.1.0",
    ):
        assert expected in words, expected
    assert "<details><summary>Inventory</summary>" in usual()
    assert "<details open" not in usual(), "nothing but what was measured is open at first"


def test_dates_of_a_run_in_virtual_time_say_so() -> None:
    for virtual, page in ((False, usual()), (True, html([make_run(virtual_time=True)]))):
        words = " ".join(Page(page).words)
        dates = re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC( \(virtual\))?", words)
        assert len(dates) >= 2
        assert all(bool(mark) is virtual for mark in dates)


def test_hostile_texts_stay_texts() -> None:
    evil = "<script>alert(1)</script>\"'&"
    page = Page(html([make_run(evil, timelines=(make_timeline(what=evil),))]))
    assert page.reaches == []
    assert any("<script>alert(1)</script>" in word for word in page.words)


def test_breaches_and_unknowns_are_shown() -> None:
    blind = make_timeline(hide=frozenset({("h0.eth0", "rdma")}))
    broken = timeline_of("r9", what="x", links=blind.links, breaches=["light after firmware"])
    text = html([make_run(timelines=(broken,))])
    assert "What went wrong" in text
    assert "r9: light after firmware" in text
    assert "h0.eth0&lt;-&gt;h1.eth2: rdma unknown" in text
    assert "What went wrong" not in usual()


def test_pairs_have_a_table_with_the_paper_beside_each() -> None:
    commands = tuple(
        SwitchCommands(
            reconfiguration="r", switch="ocs1", pairs=pairs, removed=0, commands=1, control_s=0.04 + repeat / 1e3,
            error_s=0.0, origin=Origin.FITTED,
        )
        for pairs in (1, 16)
        for repeat in range(3)
    )  # fmt: skip
    report = dataclasses.replace(make_run(), commands=commands, lab=RunTimings(others=frozenset({"polatis-mfabric"})))
    words = " ".join(Page(html([report])).words)
    assert "1, real time 3 41.0 ms" in words
    mean, p99 = "mean 46.75 ms (16 pairs)", "p99 68 ms (16 pairs) (read off the curve)"
    assert f"mfabric fig. 10: {mean}  fitted to it ; mfabric fig. 10: {p99}  fitted to it" in words
    assert "Control time by pairs" not in usual()
    assert "against run" not in usual()


def test_run_without_any_link_has_a_page() -> None:
    words = " ".join(Page(html([make_run(timelines=())])).words)
    assert "moved no link" in words


def test_typical_reconfiguration_is_the_one_in_the_middle() -> None:
    timelines = [make_timeline(seed) for seed in range(7)]
    slowest = sorted(
        timelines, key=lambda one: max(link.stage(StageName.TURNAROUND).seconds or 0 for link in one.links)
    )
    assert typical(timelines) is slowest[3]
    assert typical([]) is None


def test_report_is_made_from_the_documents() -> None:
    wanted = make_run()
    run = replace(wanted.run, outcome=RunOutcome.FAILED, why="not ready")
    facts: list[Fact] = [RunStarted(run=run.id, playbook="p", parameters={}, steps=2, virtual_time=False)]
    for timeline in wanted.timelines:
        of_run: dict[str, Any] = {"reconfiguration": timeline.reconfiguration, "run": run.id}
        moves = [StartedMove(switch="ocs1", remove=[], add=pairs_of("1A-2B", "3A-4B"))]
        outcome, why = ("rolled-back", "not ready") if timeline.reconfiguration == "r1" else ("confirmed", "")
        facts.append(ReconfigurationStarted(**of_run, hash="0", what="", links=[], moves=moves))
        facts.append(replace(timeline, run=run.id))
        facts.append(ReconfigurationEnded(**of_run, outcome=outcome, why=why, seconds=15.0))
    facts.append(HostLost(host="h0", boot="b", count=4, why="spool full"))
    facts.append(RunStep(run=run.id, step=2, what="wait", state="failed", done=1, total=2, expected_s=None))
    report = of_documents(run, [Document(at_ns=0, wall_ns=0, fact=fact) for fact in facts])
    assert report.timelines == wanted.timelines
    assert [(one.pairs, one.commands) for one in report.commands] == [(2, 1)] * 3
    assert report.lab.named == {"polatis-opus", "opus-cx6dx-autoneg"}
    assert report.events_lost == 4
    assert report.steps_failed == ("step 2: wait",)
    assert "r1 rolled-back: not ready" in html([report])


def test_total_of_a_link_is_that_of_its_timeline() -> None:
    timeline = make_timeline(links=1)
    assert f"{timeline.links[0].stage(StageName.TURNAROUND).seconds:.3f} s" in html([make_run(timelines=(timeline,))])


def test_what_anybody_has_said_stands_in_a_page_as_text_and_lines_and_tabs_of_a_file_stay() -> None:
    assert escape("<b>\u202egpj\x1b[2J&\"'") == r"&lt;b&gt;\u202egpj\x1b[2J&amp;&quot;&#x27;"
    assert escape("a:\n\tb\n") == "a:\n\tb\n"
