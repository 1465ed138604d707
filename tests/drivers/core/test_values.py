"""Texts of crossconnects: the order of their ends."""

import pytest

from hwd_drivers.core.values import Crossconnect


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("1A-2B", "1A-2B"),
        ("2B-1A", "1A-2B"),
        ("3-7", "3-7"),
        ("10-9", "9-10"),
        ("in-3", "in-3"),
        ("3-in", "in-3"),
        ("11-com", "com-11"),
        ("out-in", "in-out"),
    ],
)
def test_side_a_is_first_then_a_word_then_the_smaller_port(written: str, text: str) -> None:
    assert str(Crossconnect.parse(written)) == text
    assert Crossconnect.parse(written) == Crossconnect.parse(text)
