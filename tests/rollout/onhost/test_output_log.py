"""OutputLog: each byte reaches those who attach once, whatever they took and whenever they went."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.rollout.onhost.output_log import PIECE_BYTES, OutputLog


def rest(log: OutputLog) -> bytes:
    """All that waits, as it is sent."""
    found = b""
    while not log.is_sent:
        found += log.next()[1]
    return found


def test_small_pieces_of_one_stream_are_joined_and_what_was_not_taken_is_sent_again_and_what_is_freed_counted() -> None:
    log = OutputLog()
    for stream, data in (("out", b"a"), ("out", b"b"), ("err", b"c"), ("out", bytes(PIECE_BYTES)), ("out", b"d")):
        log.add(stream, data)
    found = [(stream, bytes(data)) for stream, data in (log.next() for _ in range(4))]
    assert found == [("out", b"ab"), ("err", b"c"), ("out", bytes(PIECE_BYTES)), ("out", b"d")]
    assert log.is_sent
    with pytest.raises(IndexError):
        log.next()
    log = OutputLog()
    log.add("out", b"0123456789")
    assert (log.begin(None), rest(log)) == ((0, 0), b"0123456789")
    log.take(3)
    log.rewind()
    assert (log.begin(None), rest(log)) == ((3, 0), b"3456789")
    log.rewind()
    assert (log.begin(8), rest(log)) == ((8, 0), b"89"), "a reader that knows better"
    log.rewind()
    log.shrink(1)
    assert (log.begin(None), rest(log)) == ((8, 1), b"9")
    log.rewind()
    assert (log.begin(4), rest(log)) == ((4, 5), b"9")
    log.rewind()
    assert (log.begin(99), rest(log)) == ((10, 0), b""), "no place beyond the end"


@given(st.lists(st.tuples(st.sampled_from(["add", "send", "take", "attach", "known"]), st.integers(0, 40))))
def test_no_byte_is_lost_or_sent_twice_to_readers_that_say_what_they_took(steps: list[tuple[str, int]]) -> None:
    log, written, read = OutputLog(), b"", b""
    for step, number in steps:
        if step == "add":
            data = bytes((len(written) + place) % 256 for place in range(number))
            if data:
                log.add("err" if number % 2 else "out", data)
            written += data
        elif step == "send" and not log.is_sent:
            read += log.next()[1]
        elif step == "take":
            log.take(len(read) - min(number, len(read)))
        elif step in ("attach", "known"):
            log.rewind()
            at, dropped = log.begin(len(read) if step == "known" else None)
            assert dropped == 0
            read = read[:at]
            assert len(read) == at
    assert read + rest(log) == written
