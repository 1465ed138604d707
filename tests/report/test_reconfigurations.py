"""Reconfigurations out of the documents of a run."""

from hwd.model.instant import InstantName, Knowledge, Origin
from hwd.model.reconfiguration import ReconfigurationCommanded
from hwd.model.recorded_run import Run
from hwd.model.switch import SwitchOverrun
from hwd.report.page.html import html
from hwd.report.reconfigurations import Reassembly, recorded_reconfigurations
from hwd.report.run_report import BROKEN_OFF, of_documents
from hwd_drivers.core.documents import Document

from ..texts import pairs_of
from .conftest import Recorded
from .stage import make_run


def test_each_is_there_when_it_ended_with_what_was_moved(recorded: Recorded) -> None:
    run, documents = recorded
    first, second = recorded_reconfigurations(run, documents)
    assert (first.outcome, first.whole, first.made, first.removed) == ("confirmed", True, {"ocs1": 4}, {"ocs1": 0})
    assert second.removed == {"ocs1": 4}
    assert first.switches == {"h0.eth0<->h1.eth0": ("ocs1",), "h0.eth1<->h1.eth1": ("ocs1",)}
    assert [state for _, state in first.states][:2] == ["journaled", "driving"]
    assert first.started_ns + first.wall_offset_ns == documents[0].wall_ns + first.started_ns - documents[0].at_ns
    assert first.ended_ns is not None
    assert first.ended_ns < second.started_ns


def test_only_what_is_open_is_held(recorded: Recorded) -> None:
    run, documents = recorded
    reassembly = Reassembly(run)
    since = []
    for document in documents:
        reassembly.take(document)
        since.append(reassembly.open_since_ns)
    assert since[0] is None
    assert since[-1] is None
    assert len({one for one in since if one is not None}) == 2


def test_timeline_that_nobody_made_is_made_of_what_there_is(recorded: Recorded) -> None:
    run, documents = recorded
    whole, _ = recorded_reconfigurations(run, documents)
    cut = next(index for index, one in enumerate(documents) if one.kind == "timeline")
    (broken,) = recorded_reconfigurations(run, documents[:cut])
    assert (broken.whole, broken.outcome, broken.ended_ns) == (False, None, None)
    for link, same in zip(broken.timeline.links, whole.timeline.links, strict=True):
        assert link.instant(InstantName.READY) == same.instant(InstantName.READY)
        assert link.instant(InstantName.ACKNOWLEDGED).origin is Origin.FITTED, "the testbed file says whose twin it is"
    (early,) = recorded_reconfigurations(run, documents[: cut // 2])
    unseen = [one for link in early.timeline.links for one in link.instants if one.knowledge is not Knowledge.SEEN]
    assert unseen
    assert {one.knowledge for one in unseen} == {Knowledge.UNKNOWN}, "silence says nothing"


def test_end_without_its_beginning_still_counts(recorded: Recorded) -> None:
    """Some documents were lost: the records were full."""
    run, documents = recorded
    first, second = recorded_reconfigurations(run, [one for one in documents if one.kind != "reconfiguration.started"])
    assert first.timeline.links
    assert (first.outcome, first.made) == ("confirmed", {})
    bare, _ = recorded_reconfigurations(run, [one for one in documents if one.kind == "reconfiguration.ended"])
    assert bare.timeline.links == []
    assert second.whole


def test_report_says_what_broke_off(recorded: Recorded) -> None:
    run, documents = recorded
    cut = [index for index, one in enumerate(documents) if one.kind == "timeline"][1]
    report = of_documents(run, documents[:cut])
    assert [one.outcome for one in report.endings] == ["confirmed", BROKEN_OFF]
    assert len(report.timelines) == 2
    assert [(one.switch, one.pairs, one.removed) for one in report.commands] == [("ocs1", 4, 0), ("ocs1", 4, 4)]


# --- the window between read and write, and what others lost in it

RUN = Run(id="20270110-a1b2", playbook="p", testbed="t", version="0", started_wall_ns=1, testbed_text="")


def commanded(window_s: float | None) -> ReconfigurationCommanded:
    return ReconfigurationCommanded(
        reconfiguration="r1", switch="ocs1", commanded_ns=1, acknowledged_ns=2, commands=1, window_s=window_s
    )


def test_window_and_what_was_lost_stand_in_the_report() -> None:
    facts = [
        *(commanded(window_s) for window_s in (0.002, None, 0.004, 0.0123)),
        SwitchOverrun(reconfiguration="r1", switch="ocs1", lost=pairs_of("1A-7B", "8A-2B"), window_s=0.0123),
    ]
    report = of_documents(RUN, [Document(at_ns=0, wall_ns=0, fact=fact) for fact in facts])
    assert report.guard.windows_s == [0.002, 0.004, 0.0123]
    said = (
        "4 ms in the middle, 12.3 ms at most, of 3 commands; 1 known to have removed what another client made meanwhile"
    )
    assert str(report.guard) == said
    (lost,) = report.guard.overruns
    assert lost.startswith(
        "r1: overrun on ocs1: 1A-7B, 8A-2B of another client was lost; it was made in the 12.3 ms between"
    )
    page = html([report])
    assert said in page
    assert lost in page[page.index("What went wrong") :]


def test_a_run_of_before_says_that_nobody_recorded_it() -> None:
    report = make_run()
    assert str(report.guard) == "not recorded"
    assert "overrun" not in html([report])
