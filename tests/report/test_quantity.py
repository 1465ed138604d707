"""Figures as people read them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.report.quantity import MISSING, bound, duration, interval, stated

from ..answers import check_golden

FACTORS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


def test_duration_has_three_or_four_digits_and_a_unit() -> None:
    seconds = (None, 0.0, 75e-6, 0.2, 0.09995, 0.9996, 6.2514, 75.3, -0.0012, 2e-9)
    check_golden(Path(__file__).with_name("durations.txt"), "".join(f"{one}: {duration(one)}\n" for one in seconds))


def test_interval_says_the_unit_once() -> None:
    assert interval(0.198, 0.207) == "198 to 207 ms"
    assert interval(0.5, 1.5) == "500 ms to 1.500 s"
    assert interval(0.2, 0.2) == "200 ms"
    assert bound(0.0002) == "± 200 µs"


def test_papers_figure_gets_no_digit_more_than_printed() -> None:
    assert stated(6.0, 6.0) == "6 s"
    assert stated(0.04144, 0.04144) == "41.44 ms"
    assert stated(70e-6, 80e-6) == "70 to 80 µs"
    assert stated(0.1, 0.2) == "100 to 200 ms"
    assert stated(5.67, 5.67) == "5.67 s"


@given(st.floats(1e-9, 1e5))
def test_duration_is_right_within_its_digits(seconds: float) -> None:
    number, unit = duration(seconds).split()
    assert float(number) * FACTORS[unit] == pytest.approx(seconds, rel=6e-3)


def test_interval_with_one_end_alone_is_unknown() -> None:
    assert interval(0.2, None) == interval(None, 0.2) == MISSING
