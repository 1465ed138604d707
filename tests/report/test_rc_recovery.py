"""The table of recoveries."""

from msgspec import UNSET

from hwd.model.instant import Origin
from hwd.report.page.html import html
from hwd.report.rc_recovery import recovery_rows, recovery_text
from hwd.timeline import EndTimeline, RcOutcome, RcRecovery, Timeline

from .stage import make_run

LINK = "h0.eth0<->h1.eth0"


def recovery(outcome: RcOutcome, after_ms: float | None, *, ack_timeout_s: float = 0.067108864) -> RcRecovery:
    return RcRecovery(
        outcome=outcome,
        earliest_ns=0,
        latest_ns=1,
        best_ns=1,
        after_s=1.0,
        ack_timeout_s=ack_timeout_s,
        retries=7,
        origin=Origin.KERNEL,
        after_carrier_s=None if after_ms is None else after_ms / 1000,
        error_s=None if after_ms is None else 0.002,
    )


def timeline(*found: RcRecovery | None) -> Timeline:
    ends = [
        EndTimeline(link=LINK, end=f"h0.eth{number}", instants=(), observations=(), rc=one or UNSET)
        for number, one in enumerate(found)
    ]
    return Timeline(
        reconfiguration="r1", run=None, what="", commands=[], ends=ends, links=[], breaches=[], explained=[]
    )


def test_ends_that_are_set_alike_share_a_row() -> None:
    rows = recovery_rows(
        [
            timeline(recovery(RcOutcome.COMPLETED, 60), None),
            timeline(recovery(RcOutcome.RE_MADE, 20), recovery(RcOutcome.COMPLETED, 70)),
            timeline(recovery(RcOutcome.FAILED, None)),
            timeline(recovery(RcOutcome.COMPLETED, 3, ack_timeout_s=0.004)),
        ]
    )
    assert recovery_text(rows) == (
        "rc recovery: carrier to the first send of the dark that got through\n"
        "ACK timeout  retries  n  completed  re-made  failed   median      max      bound  origin\n"
        "-----------  -------  -  ---------  -------  ------  -------  -------  ---------  ------\n"
        "    4.00 ms        7  1          1        0       0  3.00 ms  3.00 ms  ± 2.00 ms  kernel\n"
        "    67.1 ms        7  4          2        1       1  60.0 ms  70.0 ms  ± 2.00 ms  kernel\n"
    )


def test_without_one_there_is_no_table() -> None:
    assert recovery_rows([timeline(None)]) == ()


def test_a_page_has_the_same_figures() -> None:
    page = html([make_run(timelines=(timeline(recovery(RcOutcome.COMPLETED, 60)),))])
    assert (
        '<td class="num" data-heading="ACK timeout">67.1 ms</td><td class="num" data-heading="retries">7</td>' in page
    )
    assert '<td class="num" data-heading="median">60.0 ms</td>' in page
