"""Light history: the average over a window is that of the light that there was."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.twins.light_history import LightHistory

WINDOW_NS = 1000

levels = st.none() | st.floats(-60, 20)
changes = st.lists(st.tuples(st.integers(0, 400), levels), max_size=20)


def brute(steps: list[tuple[int, float | None]], now_ns: int, averaging_ns: int) -> float | None:
    """Nanosecond by nanosecond."""
    total = 0.0
    for at_ns in range(now_ns - averaging_ns, now_ns):
        dbm = [level for since_ns, level in steps if since_ns <= at_ns][-1]
        total += 0.0 if dbm is None else 10 ** (dbm / 10)
    return 10 * math.log10(total / averaging_ns) if total else None


@given(levels, changes, st.integers(0, 500), st.integers(1, WINDOW_NS))
def test_average_is_that_of_every_nanosecond(
    first: float | None, waits: list[tuple[int, float | None]], more_ns: int, averaging_ns: int
) -> None:
    history = LightHistory(WINDOW_NS, first)
    steps: list[tuple[int, float | None]] = [(-(10**9), first)]
    now_ns = 0
    for wait_ns, level in waits:
        now_ns += wait_ns
        history.moved(now_ns, level)
        steps.append((now_ns, level))
    now_ns += more_ns
    expected = brute(steps, now_ns, averaging_ns)
    found = history.average_dbm(now_ns, averaging_ns)
    assert found == (None if expected is None else pytest.approx(expected, abs=1e-6))


def test_no_more_is_stored_than_the_longest_window_needs_and_time_that_goes_back_is_that_of_the_last_change() -> None:
    history = LightHistory(100)
    for at_ns in range(0, 100_000, 10):
        history.moved(at_ns, -3.0 if at_ns % 20 else None)
    assert len(history._steps) <= 12, "ten changes within the window, the one before it, and the last"
    history = LightHistory(100)
    history.moved(50, 0.0)
    history.moved(40, None)
    assert history.average_dbm(100, 100) is None
