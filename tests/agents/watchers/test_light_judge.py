"""From samples to dark and light: the truth lies within each bound, and nothing that the flags latched is missed."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_agents.sources.modules.module_memory import Los
from hwd_agents.watchers.light_judge import LATE_NS, LightChange, LightJudge, LightSample

LIT = (-2.0,) * 4
DARK = (None,) * 4


def sample(at_ns: int, *, lost: bool = False, dark: bool = False, **more: Any) -> LightSample:
    lanes = DARK if dark else LIT
    return LightSample(before_ns=at_ns, after_ns=at_ns + 1, lost=lost, dark=dark, lanes=lanes, **more)


def state(at_ns: int, *, late_ns: int | None = 0, **more: Any) -> LightSample:
    return sample(at_ns, los=Los.STATE, late_by_flag_ns=late_ns, late_by_power_ns=0, **more)


def feed(*samples: LightSample) -> list[tuple[str, int | None, int]]:
    judge = LightJudge()
    return [(each.kind, each.earliest_ns, each.at_ns) for one in samples for each in judge.feed(one)]


LOST_DARK, LOST = {"lost": True, "dark": True}, {"lost": True}
WELL: dict[str, bool] = {}
CAME = [("dark", 0, 11), ("light", 20, 31)]


@pytest.mark.parametrize(
    ("samples", "found"),
    [
        ([WELL, WELL, WELL], []),
        ([LOST_DARK, LOST_DARK], []),
        ([LOST, WELL, WELL], []),
        ([WELL, LOST_DARK, LOST_DARK, LOST, WELL], CAME),
        ([WELL, LOST_DARK, LOST, LOST, WELL], CAME),
        ([WELL, LOST, WELL], [("dark", 0, 11), ("light", 0, 11)]),
        ([WELL, {"dark": True}, {"dark": True}, WELL], CAME),
    ],
    ids=[
        "it stays lit",
        "it stays dark",
        "a flag from before the first sample",
        "light came before the last set flag was read",
        "power that is back is no light while the flag is set again",
        "an outage between two samples is shown by its flag",
        "power judges where flags do not work",
    ],
)
def test_samples_tell_of_light_and_dark(samples: list[dict[str, bool]], found: list[tuple[str, int, int]]) -> None:
    assert feed(*(sample(10 * number, **flags) for number, flags in enumerate(samples))) == found


LENGTHS = st.lists(st.integers(1, 60), max_size=12)
DISTANCES = st.lists(st.integers(2, 25), min_size=3, max_size=60)
LitAt = Callable[[int], bool]


def changes_of(
    lengths: list[int], distances: list[int], look: Callable[[LitAt, int, int], LightSample], *, lit_first: bool = True
) -> list[LightChange]:
    """What is found in light that comes and goes, by what `look` shows of it since the sample before: each change holds
    a true one.
    """
    edges = [sum(lengths[: index + 1]) * 10 + 5 for index in range(len(lengths))]  # never at a sample's own time

    def lit_at(at: int) -> bool:
        return lit_first != (sum(edge <= at for edge in edges) % 2 == 1)

    judge, found = LightJudge(), list[LightChange]()
    since = at = 0
    for distance in distances:
        at += distance * 10
        found += judge.feed(look(lit_at, since, at))
        since = at
    for change in found:
        assert change.earliest_ns is not None
        edges_of = [edge for edge in edges if lit_at(edge) == (change.kind == "light")]
        assert any(change.earliest_ns <= edge <= change.at_ns for edge in edges_of), change
    return found


@given(LENGTHS, DISTANCES, st.integers(1, 300), st.sampled_from(["none", "prompt", "late"]))
def test_a_flag_that_takes_its_time_to_be_set_again_is_not_taken_for_light(
    lengths: list[int], distances: list[int], late: int, powers: str
) -> None:
    """The module checks its light every `late`; then it sets the flag if dark and measures the power.

    A read between two checks clears the flag and finds an old power.
    """

    def look(lit_at: LitAt, since: int, at: int) -> LightSample:
        lost = not all(map(lit_at, range(-(-(since + 1) // late) * late, at + 1, late)))
        dark = {"none": False, "prompt": not lit_at(at), "late": not lit_at(at // late * late)}[powers]
        return sample(at, lost=lost, dark=dark, late_by_flag_ns=late, late_by_power_ns=late)

    found = changes_of(lengths, distances, look)
    assert all(one.kind != other.kind for one, other in itertools.pairwise(found))


@given(LENGTHS, DISTANCES, st.integers(0, 300), st.integers(0, 300), st.booleans())
def test_whatever_a_late_state_shows_each_change_holds_the_truth(
    lengths: list[int], distances: list[int], late: int, declared_more: int, lit_first: bool
) -> None:
    def look(lit_at: LitAt, since: int, at: int) -> LightSample:
        """It shows what was."""
        return state(at, lost=not lit_at(at - late), dark=not lit_at(at), late_ns=late + declared_more)

    changes_of(lengths, distances, look, lit_first=lit_first)


def test_where_nobody_declared_how_late_a_flag_is_the_standards_say() -> None:
    judge = LightJudge()
    unknown: dict[str, Any] = {"late_by_flag_ns": None, "late_by_power_ns": None}
    found = [judge.feed(sample(at, lost=at == 10, **unknown)) for at in (0, 10, 20, LATE_NS, LATE_NS + 20)]
    assert [[(change.kind, change.at_ns) for change in changes] for changes in found] == [
        [],
        [("dark", 11)],
        [],
        [],
        [("light", LATE_NS + 11)],
    ]


def test_a_state_is_taken_for_no_latch() -> None:
    """A set state says that it is dark at the read: light comes after the last read with it. A flag says before."""
    found = feed(state(0), state(10, lost=True), state(20, lost=True), state(30), state(40))
    assert found == [("dark", 0, 11), ("light", 20, 31)]
    for samples in ((state(0), state(10, lost=True), state(20)), (sample(0, dark=True),)):
        judge = LightJudge()
        for one in samples:
            judge.feed(one)
        assert not judge.latched, "power is no latch, either"


def test_a_state_that_is_set_at_the_first_sample_is_darkness_and_a_flag_may_be_old() -> None:
    by_state, by_flag = LightJudge(), LightJudge()
    by_state.feed(state(0, lost=True))
    by_flag.feed(sample(0, lost=True))
    assert (by_state.lit, by_flag.lit) == (False, None)


def test_what_a_module_shows_late_may_have_come_so_much_earlier_and_unknown_leaves_no_earliest() -> None:
    judge = LightJudge()
    judge.feed(state(0, late_ns=500))
    (change,) = judge.feed(state(10, lost=True, late_ns=500))
    assert (change.earliest_ns, change.at_ns) == (-500, 11)
    unknown = LightJudge()
    unknown.feed(state(0, late_ns=None))
    (change,) = unknown.feed(state(10, lost=True, late_ns=None))
    assert (change.earliest_ns, change.at_ns) == (None, 11)
