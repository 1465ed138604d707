"""The order of instants."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.model.instant import Instant, InstantName
from hwd.timeline.rules import CHAINS, breaches

from .conftest import Story

TIMES = st.lists(st.integers(0, 1000), min_size=8, max_size=8)


def instants(at: list[int], error: int) -> dict[InstantName, Instant]:
    return {
        name: Instant.seen(name, earliest_ns=time - error, latest_ns=time + error)
        for name, time in zip(InstantName, at, strict=True)
    }


def test_breach_names_both_instants_and_by_how_much(story: Story) -> None:
    story.without("h0.eth0", "firmware")
    story.event("h0.eth0", "firmware", 6103, source="phy", up=True)
    assert story.tell().breaches == [
        "h0.eth0: firmware at 6102.900 to 6103.100 ms (phy) should not be after carrier at 6100.900 to 6101.100 ms "
        "(netlink), and is by 1.800 ms beyond both bounds",
        "h0.eth0: firmware at 6102.900 to 6103.100 ms (phy) should not be after rdma at 6101.900 to 6102.100 ms "
        "(sysfs), and is by 0.800 ms beyond both bounds",
    ]


SPANS = st.lists(st.tuples(*[st.integers(0, 10**9)] * 3).map(sorted), min_size=8, max_size=8)


@given(SPANS)
def test_breach_follows_from_the_bounds_that_it_prints_wherever_the_best_estimates_lie(spans: list[list[int]]) -> None:
    found = {
        name: Instant.seen(name, earliest_ns=earliest, latest_ns=latest, best_ns=best)
        for name, (earliest, best, latest) in zip(InstantName, spans, strict=True)
    }
    for text in breaches("x", found):
        printed = re.fullmatch(
            r"x: \w+ at (\S+)(?: to \S+)? ms should not be after \w+ at (?:\S+ to )?(\S+) ms, "
            r"and is by (\S+) ms beyond both bounds",
            text,
        )
        assert printed is not None, text
        earliest_ms, latest_ms, by_ms = map(float, printed.groups())
        assert earliest_ms - latest_ms == pytest.approx(by_ms, abs=0.0021)


def test_disorder_within_the_bounds_and_an_answer_before_the_light_are_no_breach(story: Story) -> None:
    story.without("h0.eth0", "firmware")
    story.event("h0.eth0", "firmware", 6101.15, source="phy", up=True)
    story.commanded.clear()
    story.command("ocs1", 0, 1)
    assert story.tell().breaches == []


@given(TIMES, st.integers(0, 50))
def test_no_breach_where_every_chain_is_in_order(at: list[int], error: int) -> None:
    found = instants(sorted(at), error)
    assert breaches("x", found) == ()


@given(TIMES, st.integers(0, 50))
def test_there_is_a_breach_where_some_pair_is_out_of_order_beyond_its_bounds(at: list[int], error: int) -> None:
    found = instants(at, error)
    broken = any(
        found[chain[i]].earliest_ns > found[chain[j]].latest_ns
        for chain in CHAINS
        for i in range(len(chain))
        for j in range(i + 1, len(chain))
    )
    assert bool(breaches("x", found)) == broken


@given(TIMES, st.sets(st.sampled_from(list(InstantName))))
def test_unknown_instants_break_nothing(at: list[int], unknown: set[InstantName]) -> None:
    found = instants(at, 0)
    rest = {name: one for name, one in found.items() if name not in unknown}
    hidden = found | {name: Instant.unknown(name, "no source") for name in unknown}
    assert breaches("x", hidden) == breaches("x", rest) or InstantName.COMMANDED in unknown
