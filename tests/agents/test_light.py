"""From samples to dark and light: the truth lies within each bound, and nothing that the flags latched is missed."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from hwd_agents.light import LightChange, LightJudge, LightSample

LIT = (-2.0,) * 4
DARK = (None,) * 4


def sample(at_ns: int, *, lost: bool = False, dark: bool = False) -> LightSample:
    return LightSample(before_ns=at_ns, after_ns=at_ns + 1, lost=lost, dark=dark, lanes=DARK if dark else LIT)


def feed(*samples: LightSample) -> list[tuple[str, int, int]]:
    judge = LightJudge()
    return [(each.kind, each.earliest_ns, each.at_ns) for one in samples for each in judge.feed(one)]


def test_a_port_that_stays_lit_or_dark_tells_nothing() -> None:
    assert feed(sample(0), sample(10), sample(20)) == []
    assert feed(sample(0, lost=True, dark=True), sample(10, lost=True, dark=True)) == []


def test_a_flag_from_before_the_first_sample_is_no_event() -> None:
    assert feed(sample(0, lost=True), sample(10), sample(20)) == []


def test_light_came_before_the_last_set_flag_was_read() -> None:
    found = feed(
        sample(0),
        sample(10, lost=True, dark=True),
        sample(20, lost=True, dark=True),
        sample(30, lost=True),
        sample(40),
    )
    assert found == [("dark", 0, 11), ("light", 20, 31)]


def test_power_that_is_back_is_not_light_while_the_flag_is_set_again() -> None:
    found = feed(sample(0), sample(10, lost=True, dark=True), sample(20, lost=True), sample(30, lost=True), sample(40))
    assert found == [("dark", 0, 11), ("light", 20, 31)]


def test_an_outage_between_two_samples_is_told_by_its_flag() -> None:
    assert feed(sample(0), sample(10, lost=True), sample(20)) == [("dark", 0, 11), ("light", 0, 11)]


def test_power_judges_where_flags_do_not_work() -> None:
    found = feed(sample(0), sample(10, dark=True), sample(20, dark=True), sample(30))
    assert found == [("dark", 0, 11), ("light", 20, 31)]
    judge = LightJudge()
    judge.feed(sample(0, dark=True))
    assert not judge.latched


@given(
    st.lists(st.integers(1, 60), max_size=12),
    st.lists(st.integers(2, 25), min_size=3, max_size=60),
    st.booleans(),
)
def test_whatever_the_light_does_each_outage_seen_holds_the_truth(
    lengths: list[int], distances: list[int], lit_first: bool
) -> None:
    edges = [sum(lengths[: index + 1]) * 10 + 5 for index in range(len(lengths))]  # never at a sample's own time

    def lit_at(at: int) -> bool:
        return lit_first != (sum(edge <= at for edge in edges) % 2 == 1)

    def dark_within(since: int, until: int) -> bool:
        return not lit_at(since) or not lit_at(until) or any(since <= edge <= until for edge in edges)

    judge = LightJudge()
    found: list[LightChange] = []
    since = at = 0
    for distance in distances:
        at += distance * 10
        found += judge.feed(sample(at, lost=dark_within(since, at), dark=not lit_at(at)))
        since = at
    kinds = [change.kind for change in found]
    assert all(one != other for one, other in itertools.pairwise(kinds))
    falls = [edge for edge in edges if not lit_at(edge)]
    rises = [edge for edge in edges if lit_at(edge)]
    for change in found:
        edges_of = falls if change.kind == "dark" else rises
        assert any(change.earliest_ns <= edge <= change.at_ns for edge in edges_of)
