"""Links: 1, 0 or nothing, as reconfigurations and hosts tell of them."""

import pytest

from hwd.telemetry.links import Links
from hwd.telemetry.series import Series

LINK, ENDS = "h0.eth0<->h1.eth0", ("h0.eth0", "h1.eth0")
OTHER = "h0.eth0<->h2.eth0"
THERE, BACK = "ocs1:1A-2B", "ocs1:2A-1B"
PAIRS = (THERE, BACK)


@pytest.fixture
def ready() -> Series:
    return Series("hwd_link_ready", "", "link", limit=9)


@pytest.fixture
def links(ready: Series) -> Links:
    """With one link under way, dark at both ends."""
    links = Links(ready)
    for end in ENDS:
        links.carrier(end, False)
    links.begin("r1", [(LINK, False, PAIRS)], [])
    return links


def come_up(links: Links, *ends: str) -> None:
    for end in ends:
        links.carrier(end, True)
        links.transferred(end)


def test_link_is_ready_when_both_ends_had_a_transfer(links: Links, ready: Series) -> None:
    assert ready.value(LINK) == 0
    come_up(links, ENDS[0])
    assert ready.value(LINK) == 0
    come_up(links, ENDS[1])
    assert ready.value(LINK) == 1


def test_link_that_nobody_waited_for_is_dark_until_its_carrier_and_then_unknown(links: Links, ready: Series) -> None:
    links.timed(LINK, ready=False)
    links.end("r1", "confirmed")
    assert ready.value(LINK) == 0
    for end in ENDS:
        links.carrier(end, True)
    assert ready.value(LINK) is None


def test_ready_link_falls_with_its_carrier_and_is_not_ready_by_its_coming_back(links: Links, ready: Series) -> None:
    come_up(links, *ENDS)
    links.end("r1", "confirmed")
    links.carrier(ENDS[1], False)
    assert ready.value(LINK) == 0
    links.carrier(ENDS[1], True)
    assert ready.value(LINK) is None


def test_timeline_of_a_link_that_fell_again_does_not_make_it_ready(links: Links, ready: Series) -> None:
    come_up(links, *ENDS)
    links.carrier(ENDS[0], False)
    links.timed(LINK, ready=True)
    assert ready.value(LINK) == 0


def test_link_that_was_taken_away_is_not_missed(links: Links, ready: Series) -> None:
    come_up(links, *ENDS)
    links.end("r1", "confirmed")
    links.begin("r2", [], [THERE])
    for end in ENDS:
        links.carrier(end, False)
    links.end("r2", "confirmed")
    assert ready.value(LINK) is None


def test_way_back_takes_the_new_link_and_brings_the_old_one(links: Links, ready: Series) -> None:
    come_up(links, *ENDS)
    links.end("r1", "confirmed")
    links.begin("r2", [(OTHER, False, ("ocs1:1A-3B", "ocs1:3A-1B"))], PAIRS)
    for end in ENDS:
        links.carrier(end, False)
    links.timed(OTHER, ready=False)
    assert (ready.value(LINK), ready.value(OTHER)) == (None, 0)
    links.end("r2", "rolled-back")
    assert (ready.value(LINK), ready.value(OTHER)) == (0, None)


def test_after_a_failed_way_back_nothing_is_said_of_its_links(links: Links, ready: Series) -> None:
    links.end("r1", "failed")
    assert ready.value(LINK) is None


def test_kept_link_goes_on_being_ready(links: Links, ready: Series) -> None:
    come_up(links, *ENDS)
    links.end("r1", "confirmed")
    links.begin("r2", [(LINK, True, PAIRS)], [])
    assert ready.value(LINK) == 1
    links.end("r2", "rolled-back")
    assert ready.value(LINK) == 1


def test_kept_link_from_before_the_daemon_is_known_by_its_timeline(ready: Series) -> None:
    links = Links(ready)
    links.begin("r1", [(LINK, True, PAIRS)], [])
    assert ready.value(LINK) is None
    links.timed(LINK, ready=True)
    assert ready.value(LINK) == 1


def test_transfer_of_an_earlier_link_does_not_count_for_a_new_one(links: Links, ready: Series) -> None:
    come_up(links, *ENDS)
    links.begin("r2", [(OTHER, False, ())], PAIRS)
    come_up(links, "h2.eth0")
    assert ready.value(OTHER) is None


def test_nothing_is_known_of_links_whose_agent_is_away(links: Links, ready: Series) -> None:
    come_up(links, *ENDS)
    links.away("h0")
    assert ready.value(LINK) is None
    links.away("h")
    assert ready.value(LINK) is None
