"""What a report says of the window between read and write, and of what others lost in it."""

from collections.abc import Callable

from hwd.records import Run
from hwd.report import RunReport, html
from hwd.report.run_report import of_documents
from hwd_drivers.core.documents import Document, Json

MakeRun = Callable[..., RunReport]
RUN = Run(id="20270110-a1b2", playbook="p", testbed="t", version="0", started_wall_ns=1, testbed_text="")


def told(kind: str, **data: Json) -> Document:
    return Document(kind=kind, at_ns=0, wall_ns=0, data=data)


def commanded(window_s: float | None) -> Document:
    stamps: dict[str, Json] = {"commanded_ns": 1, "acknowledged_ns": 2, "commands": 1}
    return told("reconfiguration.commanded", reconfiguration="r1", switch="ocs1", window_s=window_s, **stamps)


def test_window_and_what_was_lost_stand_in_the_report() -> None:
    documents = [
        *(commanded(window_s) for window_s in (0.002, None, 0.004, 0.0123)),
        told("switch.overrun", reconfiguration="r1", switch="ocs1", lost=["1A-7B", "8A-2B"], window_s=0.0123),
    ]
    report = of_documents(RUN, documents)
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


def test_a_run_of_before_says_that_nobody_recorded_it(make_run: MakeRun) -> None:
    report = make_run()
    assert str(report.guard) == "not recorded"
    assert "overrun" not in html([report])
