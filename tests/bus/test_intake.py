import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.bus.intake import HELD_MOST, Intake, Losses
from hwd_agents.wire import Event
from hwd_agents.wire.events import LostData

from ..agents.wire.golden import event


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
        assert (intake.gap is None) == (not intake.held)
    assert out == list(range(out[0], out[0] + len(out))) if out else True
    assert intake.upto == (out[-1] if out else 0 if begin is None else begin - 1)


def test_what_waits_is_bounded_and_the_earliest_is_kept() -> None:
    intake = Intake(0.0)
    intake.begin(1)
    intake.take([event(seq) for seq in range(1, HELD_MOST + 100)])
    assert len(intake.held) == HELD_MOST
    assert seqs(intake.ready())[-1] == HELD_MOST
    late = Intake(0.0)
    late.begin(1)
    late.take([event(seq) for seq in range(3, HELD_MOST + 3)])
    late.take([event(1), event(2)])
    assert len(late.held) == HELD_MOST
    assert seqs(late.ready()) == list(range(1, HELD_MOST + 1)), "a gap is filled late, though it is full"


def test_what_comes_while_it_is_full_costs_little_however_much_it_is() -> None:
    """A gap that nobody fills, and a host that goes on sending: the loop of the daemon is everybody's."""
    intake = Intake(0.0)
    intake.begin(1)
    intake.take([event(seq) for seq in range(2, HELD_MOST + 2)])
    messages = [
        [event(seq) for seq in range(since, since + 256)] for since in range(HELD_MOST, HELD_MOST + 25_600, 256)
    ]
    started_s = time.process_time()
    for message in messages:
        intake.take(message)
    assert time.process_time() - started_s < 1.5
    assert len(intake.held) == HELD_MOST
    assert intake.gap == (1, 1)


Story = list[tuple[str, str, int, int]]


@pytest.mark.parametrize(
    ("story", "news"),
    [
        ([("told", "b1", 1, 5)], [5]),
        ([("missed", "b1", 1, 5), ("told", "b1", 1, 5)], [5, 0]),
        ([("told", "b1", 1, 5), ("missed", "b1", 4, 7)], [5, 2]),
        ([("told", "b1", 1, 10), ("missed", "b1", 20, 26)], [10, 7]),
        ([("told", "b1", 1, 10), ("missed", "b2", 1, 7)], [10, 7]),
        ([("passed", "b1", 1, 8), ("told", "b1", 1, 10)], [2]),
    ],
)
def test_each_lost_event_counts_once_whoever_tells_of_it(story: Story, news: list[int]) -> None:
    losses = Losses()
    found: list[int] = []
    for who, boot, first, last in story:
        match who:
            case "told":
                found.append(losses.reported(LostData(count=last - first + 1, ranges=[(boot, first, last)])))
            case "missed":
                found.append(losses.add(boot, first, last))
            case _:
                losses.add(boot, first, last)
    assert found == news


def test_loss_that_is_not_named_counts_as_told() -> None:
    assert Losses().reported(LostData(count=3)) == 3
    assert Losses().reported(LostData(count=9, ranges=[("b1", 1, 4)])) == 9
