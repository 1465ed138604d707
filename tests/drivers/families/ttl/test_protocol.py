"""The wire of line banks: what is written is read again, at any cut, and garbage is a ProtocolError."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.families.ttl.protocol import (
    LINE_BYTES_MAX,
    LINES_MAX,
    PULSE_US_MAX,
    Answer,
    AnswerDecoder,
    Bank,
    Done,
    Info,
    Levels,
    Pulse,
    Read,
    Refusal,
    Request,
    RequestDecoder,
    Set,
    encode_answer,
    encode_request,
    parse_request,
)

CAPTURES = Path(__file__).with_name("captures.txt").read_text(encoding="utf-8").splitlines()
SENT = "".join(f"{line[2:]}\n" for line in CAPTURES if line.startswith(">")).encode()
ANSWERED = "".join(f"{line[2:]}\n" for line in CAPTURES if line.startswith("<")).encode()
REQUESTS: list[Request] = [
    Info(),
    Read(lines=(2, 3)),
    Set(levels={0: True}),
    Pulse(levels={0: True}, width_us=20_000),
    Read(lines=(5000,)),
]
ANSWERS: list[Answer] = [
    Bank(lines=1024, label="sel0-twin", version="1", serial="T012345"),
    Levels(levels={2: True, 3: False}),
    Done(),
    Done(),
    Refusal(code="LINE", text="no line 5000"),
]


def test_captures_are_read_at_any_cut() -> None:
    for cut in range(len(SENT)):
        decoder = RequestDecoder()
        assert [*decoder.feed(SENT[:cut]), *decoder.feed(SENT[cut:])] == REQUESTS
    for cut in range(len(ANSWERED)):
        reader = AnswerDecoder()
        assert [*reader.feed(ANSWERED[:cut]), *reader.feed(ANSWERED[cut:])] == ANSWERS


def test_both_sides_write_the_captured_bytes() -> None:
    assert b"".join(map(encode_request, REQUESTS)) == SENT
    assert b"".join(map(encode_answer, ANSWERS)) == ANSWERED


LINES = st.integers(0, 9999)
LEVELS = st.dictionaries(LINES, st.booleans(), min_size=1, max_size=40)
WORDS = st.text("abcXYZ019._-", min_size=1, max_size=20)
ANY_REQUEST = st.one_of(
    st.just(Info()),
    st.builds(Read, lines=st.lists(LINES, min_size=1, max_size=40, unique=True).map(tuple)),
    st.builds(Set, levels=LEVELS),
    st.builds(Pulse, levels=LEVELS, width_us=st.integers(1, PULSE_US_MAX)),
)
ANY_ANSWER = st.one_of(
    st.builds(Bank, lines=LINES, label=WORDS, version=WORDS, serial=WORDS),
    st.builds(Levels, levels=LEVELS),
    st.just(Done()),
    st.builds(Refusal, code=WORDS, text=st.one_of(st.just(""), WORDS)),
)


@given(ANY_REQUEST, ANY_ANSWER)
def test_written_messages_are_read_back(request: Request, answer: Answer) -> None:
    assert RequestDecoder().feed(encode_request(request)) == [request]
    assert AnswerDecoder().feed(encode_answer(answer)) == [answer]


@pytest.mark.parametrize("decoder", [RequestDecoder(), AnswerDecoder()], ids=["requests", "answers"])
def test_a_line_without_end_is_refused_at_its_limit(decoder: RequestDecoder | AnswerDecoder) -> None:
    assert decoder.feed(b"1" * LINE_BYTES_MAX) == []
    with pytest.raises(ProtocolError, match=f"limit {LINE_BYTES_MAX} bytes"):
        decoder.feed(b"1")


def test_a_request_names_no_more_lines_than_a_bank_takes() -> None:
    most = ",".join(map(str, range(LINES_MAX)))
    assert parse_request(f"read {most}") == Read(lines=tuple(range(LINES_MAX)))
    with pytest.raises(ProtocolError):
        parse_request(f"read {most},{LINES_MAX}")
