"""Recovery of a reliable connection in the timeline: beside the stages, and never among them."""

from typing import Any

import msgspec
import pytest

from hwd.model.kinds import read_fact
from hwd.timeline import RcOutcome, RcRecovery, Timeline

from .conftest import Story


def told(story: Story, end: str, at_ms: float, outcome: str = "completed", **more: Any) -> None:
    data = {
        "reconfiguration": "r1",
        "peer": "h1.eth0",
        "outcome": outcome,
        "after_s": 6.2,
        "ack_timeout_s": 0.067,
        "retries": 7,
        **more,
    }
    story.event(end, "rc-recovery", at_ms, error_ms=1.0, **data)


def of(timeline: Timeline, end: str) -> RcRecovery | None:
    (found,) = [one.rc for one in timeline.ends if str(one.end) == end]
    return found or None


def test_it_is_timed_from_the_carrier_of_its_end_and_is_no_part_of_ready(story: Story) -> None:
    without = story.tell()
    (carrier,) = [one.instants[3] for one in without.ends if str(one.end) == "h0.eth0"]
    told(story, "h0.eth0", 6300.0)
    timeline = story.tell()
    found = of(timeline, "h0.eth0")
    assert found is not None
    assert found.outcome is RcOutcome.COMPLETED
    assert found.after_carrier_s == pytest.approx((found.best_ns - carrier.at_ns) / 1e9)
    assert found.error_s == pytest.approx(0.001 + carrier.error_ns / 1e9)
    assert of(timeline, "h1.eth0") is None
    assert (timeline.links, timeline.breaches) == (without.links, [])
    assert read_fact("timeline", msgspec.json.encode(timeline)) == timeline


def test_a_failure_alone_has_no_time_and_what_was_made_anew_keeps_why_and_stands_before_it(story: Story) -> None:
    told(story, "h0.eth0", 540.0, "failed", why="retry count exceeded")
    found = of(story.tell(), "h0.eth0")
    assert found is not None
    assert (found.outcome, found.after_carrier_s, found.error_s) == (RcOutcome.FAILED, None, None)
    told(story, "h0.eth0", 6280.0, "re-made")
    found = of(story.tell(), "h0.eth0")
    assert found is not None
    assert (found.outcome, found.why) == (RcOutcome.RE_MADE, "retry count exceeded")
    assert found.after_carrier_s is not None


def test_one_of_another_reconfiguration_does_not_count(story: Story) -> None:
    told(story, "h0.eth0", 6300.0, reconfiguration="r0")
    assert of(story.tell(), "h0.eth0") is None


def test_nonsense_is_left_out_and_named(story: Story) -> None:
    told(story, "h0.eth0", 6300.0, "soon")
    timeline = story.tell()
    assert of(timeline, "h0.eth0") is None
    (breach,) = timeline.breaches
    assert "rc-recovery" in breach
    assert "'soon'" in breach
