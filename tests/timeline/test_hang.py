"""Where links hung, from their timelines alone: an aborted wait, or a record that does not say it itself."""

from hwd.model.hang import Hang
from hwd.model.stage import StageName
from hwd.timeline.hang import hangs

from .conftest import LINK, Story

SAMPLES = "500 samples, longest gap 2.000 ms"
BOTH = ("h0.eth0", "h1.eth0")
WATCHED = {"light": False, "firmware": False, "carrier": False, "rdma": False, "ready": False}


def watched(story: Story, **without: str) -> None:
    """All states are watched and come back, but for those that `without` has no source of, with the reason."""
    story.settle("h0", "h1", kinds=WATCHED)
    for watches in story.settled.values():
        for kind, why in without.items():
            watches[kind] |= {"seen": False, "why_not": why}


def test_link_that_was_ready_or_kept_hangs_nowhere(story: Story) -> None:
    assert list(hangs(story.tell())) == []
    story.without("h0.eth0", "ready")
    story.links[0]["kept"] = True
    assert list(hangs(story.tell())) == []


def test_end_that_lacks_the_first_instant_is_named_with_its_reason(story: Story) -> None:
    watched(story)
    story.without("h1.eth0", "firmware", "carrier", "rdma", "ready")
    story.without("h0.eth0", "ready")
    (hang,) = hangs(story.tell())
    assert hang == Hang(
        link=LINK,
        end="h1.eth0",
        stage=StageName.FIRMWARE,
        why=f"no event reports it ({SAMPLES})",
    )


def test_state_that_was_down_at_the_end_is_told_by_its_source(story: Story) -> None:
    watched(story)
    for end in BOTH:
        story.without(end, "light", "firmware", "rdma", "ready")
    story.without("h0.eth0", "carrier")
    story.event("h0.eth0", "carrier", 6, source="netlink", carrier=False)
    (hang,) = hangs(story.tell())
    assert str(hang) == f"{LINK} hangs at h0.eth0, optical: light down when module last saw it"


def test_instant_without_a_source_is_no_place_to_hang_at(story: Story) -> None:
    watched(story, light="this host has no source of it", firmware="this host has no source of it")
    for end in BOTH:
        story.without(end, "dark", "light", "firmware", "carrier", "rdma", "ready")
        story.event(end, "carrier", 6, source="netlink", carrier=False)
    (hang,) = hangs(story.tell())
    assert str(hang) == (
        f"{LINK} hangs at both ends, carrier: down when netlink last saw it; "
        "light unknown: this host has no source of it; firmware unknown: this host has no source of it"
    )


def test_nothing_is_said_where_nothing_was_watched(story: Story) -> None:
    for end in BOTH:
        story.without(end, "light", "dark", "firmware", "carrier", "rdma", "ready")
    story.settled.clear()
    assert list(hangs(story.tell())) == []


def test_transfer_that_never_came_is_the_last_stage(story: Story) -> None:
    watched(story)
    for end in BOTH:
        story.without(end, "ready")
    (hang,) = hangs(story.tell())
    assert str(hang) == f"{LINK} hangs at both ends, ready: no transfer succeeded in 500 tries"
