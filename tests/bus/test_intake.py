import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.bus.intake import HELD_MOST, Intake, Losses
from hwd_agents.wire import Event


def event(seq: int) -> Event:
    return Event(seq=seq, at_ns=seq, earliest_ns=seq, kind="carrier", port=None, source="s", origin="kernel")


def seqs(events: list[Event]) -> list[int]:
    return [each.seq for each in events]


@given(arrivals=st.lists(st.integers(1, 20), max_size=60), begin=st.none() | st.integers(1, 20))
def test_what_comes_out_ascends_without_gap_and_repeats_nothing(arrivals: list[int], begin: int | None) -> None:
    intake = Intake(0.0)
    if begin is not None:
        intake.begin(begin)
    out: list[int] = []
    for seq in arrivals:
        intake.take([event(seq)])
        out += seqs(intake.ready())
        assert (intake.gap is None) == (intake.held == 0)
    assert out == list(range(out[0], out[0] + len(out))) if out else True
    assert intake.upto == (out[-1] if out else 0 if begin is None else begin - 1)


def test_without_a_known_beginning_it_begins_at_the_earliest_held() -> None:
    intake = Intake(0.0)
    intake.take([event(7)])
    intake.take([event(5), event(6)])
    assert intake.gap is None
    assert seqs(intake.ready()) == [5, 6, 7]
    assert intake.upto == 7


def test_gap_is_named_and_can_be_given_up() -> None:
    intake = Intake(0.0)
    intake.begin(1)
    intake.take([event(4), event(5)])
    assert intake.gap == (1, 3)
    assert intake.skip_gap() == 3
    assert seqs(intake.ready()) == [4, 5]
    assert intake.skip_gap() == 0


def test_what_waits_is_bounded_and_the_earliest_is_kept() -> None:
    intake = Intake(0.0)
    intake.begin(1)
    intake.take([event(seq) for seq in range(1, HELD_MOST + 100)])
    assert intake.held == HELD_MOST
    assert seqs(intake.ready())[-1] == HELD_MOST


def test_late_filling_of_a_gap_is_taken_though_it_is_full() -> None:
    intake = Intake(0.0)
    intake.begin(1)
    intake.take([event(seq) for seq in range(3, HELD_MOST + 3)])
    intake.take([event(1), event(2)])
    assert intake.held == HELD_MOST
    assert seqs(intake.ready()) == list(range(1, HELD_MOST + 1))


def test_what_cannot_be_used_is_let_go_to_the_last() -> None:
    intake = Intake(0.0)
    intake.take([event(3), event(9)])
    assert intake.drop() == 2
    assert intake.upto == 9


@pytest.mark.parametrize(
    ("story", "news"),
    [
        ([("told", 5)], [5]),
        ([("missed", 5), ("told", 5)], [5, 0]),
        ([("told", 5), ("missed", 3), ("missed", 4)], [5, 0, 2]),
        ([("missed", 0)], [0]),
    ],
)
def test_loss_that_both_sides_tell_of_counts_once(story: list[tuple[str, int]], news: list[int]) -> None:
    losses = Losses()
    found = [losses.told(count) if who == "told" else losses.missed(count) for who, count in story]
    assert found == news
