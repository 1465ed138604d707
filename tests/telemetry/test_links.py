"""Links: 1, 0 or nothing, as reconfigurations and hosts tell of them."""

import pytest

from hwd.telemetry.links import Links
from hwd.telemetry.series import Series

from ..texts import links_of, switch_pairs_of

LINK, OTHER = links_of("h0.eth0<->h1.eth0", "h0.eth0<->h2.eth0")
ENDS = LINK.ends
PAIRS = THERE, BACK = switch_pairs_of("ocs1:1A-2B", "ocs1:2A-1B")


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


def test_link_is_ready_when_both_ends_had_a_transfer_falls_with_its_carrier_and_is_not_ready_by_its_coming_back(
    links: Links, ready: Series
) -> None:
    assert ready.value(LINK) == 0
    come_up(links, ENDS[0])
    assert ready.value(LINK) == 0
    come_up(links, ENDS[1])
    assert ready.value(LINK) == 1
    links.carrier(ENDS[0], False)
    links.timed(LINK, ready=True)
    assert ready.value(LINK) == 0, "it fell again before its timeline"
    come_up(links, *ENDS)
    links.end("r1", "confirmed")
    links.carrier(ENDS[1], False)
    assert ready.value(LINK) == 0
    links.carrier(ENDS[1], True)
    assert ready.value(LINK) is None


def test_link_that_nobody_waited_for_is_dark_until_its_carrier_and_then_unknown(links: Links, ready: Series) -> None:
    links.timed(LINK, ready=False)
    links.end("r1", "confirmed")
    assert ready.value(LINK) == 0
    for end in ENDS:
        links.carrier(end, True)
    assert ready.value(LINK) is None


def test_link_that_was_taken_away_is_not_missed_and_the_way_back_brings_it_again(links: Links, ready: Series) -> None:
    come_up(links, *ENDS)
    links.end("r1", "confirmed")
    links.begin("r2", [(OTHER, False, switch_pairs_of("ocs1:1A-3B", "ocs1:3A-1B"))], PAIRS)
    come_up(links, "h2.eth0")
    assert ready.value(OTHER) is None, "a transfer of an earlier link does not count for a new one"
    for end in ENDS:
        links.carrier(end, False)
    links.timed(OTHER, ready=False)
    assert (ready.value(LINK), ready.value(OTHER)) == (None, 0)
    links.end("r2", "rolled-back")
    assert (ready.value(LINK), ready.value(OTHER)) == (0, None)
    links.begin("r3", [], [THERE])
    links.end("r3", "confirmed")
    assert ready.value(LINK) is None


def test_kept_link_goes_on_being_ready_and_one_from_before_the_daemon_is_known_by_its_timeline(
    links: Links, ready: Series
) -> None:
    come_up(links, *ENDS)
    links.end("r1", "confirmed")
    links.begin("r2", [(LINK, True, PAIRS)], [])
    assert ready.value(LINK) == 1
    links.end("r2", "rolled-back")
    assert ready.value(LINK) == 1
    links.begin("r3", [(OTHER, True, switch_pairs_of("ocs1:1A-3B", "ocs1:3A-1B"))], [])
    assert ready.value(OTHER) is None
    links.timed(OTHER, ready=True)
    assert ready.value(OTHER) == 1


def test_nothing_is_known_after_a_failed_way_back_and_of_links_whose_agent_is_away(links: Links, ready: Series) -> None:
    come_up(links, *ENDS)
    for away in ("h", "h0"):
        links.away(away)
        assert ready.value(LINK) == (None if away == "h0" else 1)
    links.begin("r2", [(OTHER, False, ())], [])
    links.end("r2", "failed")
    assert ready.value(OTHER) is None
