"""A stranger's text in a log and on a terminal only shows itself."""

import io
import logging

from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.core.printable import LOG_MOST, LineFormatter, printable


def test_invisible_characters_become_escapes() -> None:
    assert printable("ocs1: 1A-2B tuned -0.9 dB, µs, Über") == "ocs1: 1A-2B tuned -0.9 dB, µs, Über"
    for shown in (r"\x1b[2J\x1b]0;owned\x07", r"\x9b31m\x85\x7f", r"a\r\nb\tc\x00", r"\ud800", r"\U000e0041",
                  r"\u202eexe.txt\u2066\u200f\u061c", r"one\u2028two\u2029\u200b\ufeff"):  # fmt: skip
        assert printable(shown.encode().decode("unicode_escape")) == shown


@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=60))
def test_whatever_it_is_it_is_one_line_of_characters_that_show_themselves(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert len(shown.splitlines()) <= 1


def test_long_text_is_cut_with_a_note_of_its_length() -> None:
    assert printable("x" * 5000, 100) == f"{'x' * 100}... (5000 characters)"


def logged(say: object, *, raised: Exception | None = None) -> list[str]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S"))
    log = logging.Logger("test")
    log.addHandler(handler)
    try:
        if raised is not None:
            raise raised
    except Exception:
        log.exception("h0: %s", say)
    else:
        log.warning("h0: %s", say)
    return stream.getvalue().splitlines()


def test_a_stranger_cannot_forge_a_line_of_the_log_nor_can_the_text_of_an_exception() -> None:
    (line,) = logged("down\n12:00:00 INFO    h1: agent up again\x1b[1A\x85\u2028")
    assert line.endswith(r"h0: down\n12:00:00 INFO    h1: agent up again\x1b[1A\x85\u2028")
    (line,) = logged("x" * 100_000)
    assert len(line) < LOG_MOST + 100
    first, *trace = logged("failed", raised=ValueError("no\n12:00:00 ERROR   forged\x1b[2J"))
    assert first.endswith("ERROR   h0: failed")
    assert all(line.startswith("  | ") for line in trace)
    assert trace[-1] == r"  | 12:00:00 ERROR   forged\x1b[2J"
