"""What the command line makes of values."""

import pytest

from hwd.cli.output import words


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (6.737999674999999, "6.738"),
        (12345.678901, "12345.679"),
        (0.004_213_7, "0.00421"),
        (3.0, "3"),
        (-0.9, "-0.9"),
        (0.0, "0"),
        (7, "7"),
        (True, "True"),
        ("ring", "ring"),
    ],
)
def test_a_figure_has_no_more_digits_than_a_reader_wants(value: object, shown: str) -> None:
    assert words({"expected_s": value}) == f"expected_s={shown}"


def test_stamps_and_what_is_empty_are_left_out() -> None:
    assert words({"at_ns": 5, "why": "", "run": "k3v9", "links": []}) == "run=k3v9"
