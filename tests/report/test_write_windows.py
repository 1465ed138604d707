"""What a report says of the window between read and write, and of what others lost in it."""

from hwd.model.documents.reconfigurations import ReconfigurationCommanded
from hwd.model.documents.switches import SwitchOverrun
from hwd.model.recorded_run import Run
from hwd.report.page.html import html
from hwd.report.run_report import of_documents
from hwd_drivers.core.documents import Document

from .stage import make_run

RUN = Run(id="20270110-a1b2", playbook="p", testbed="t", version="0", started_wall_ns=1, testbed_text="")


def commanded(window_s: float | None) -> ReconfigurationCommanded:
    return ReconfigurationCommanded(
        reconfiguration="r1", switch="ocs1", commanded_ns=1, acknowledged_ns=2, commands=1, window_s=window_s
    )


def test_window_and_what_was_lost_stand_in_the_report() -> None:
    facts = [
        *(commanded(window_s) for window_s in (0.002, None, 0.004, 0.0123)),
        SwitchOverrun(reconfiguration="r1", switch="ocs1", lost=["1A-7B", "8A-2B"], window_s=0.0123),
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
