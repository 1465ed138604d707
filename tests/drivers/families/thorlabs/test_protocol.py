"""Bytes of OSW switches: captures made from the published facts, cut at every byte; arbitrary bytes on both sides."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.families.thorlabs.protocol import (
    LIMIT_BYTES,
    Answer,
    AnswerDecoder,
    Command,
    CommandDecoder,
    Failure,
    Line,
    Move,
    Query,
    Unknown,
    encode_answer,
    encode_command,
    parse_command,
)

HOST = b"I?\nT?\nS?\nS 2\nS?\n"
SWITCH = b"OSW-E V1.0\r\nOSW22\r\n1\r\nError 02,Invalid parameter\r\n2\r\n"
ASKED: list[Command] = [Query.BOARD, Query.TYPE, Query.POSITION, Move(position=2), Query.POSITION]
ANSWERED: list[Answer] = [
    Line(text="OSW-E V1.0"),
    Line(text="OSW22"),
    Line(text="1"),
    Failure(code="02", text="Invalid parameter"),
    Line(text="2"),
]


def test_commands_are_as_in_published_programs() -> None:
    assert CommandDecoder().feed(HOST) == ASKED
    assert AnswerDecoder().feed(SWITCH) == ANSWERED
    assert b"".join(encode_command(each) for each in ASKED if not isinstance(each, Unknown)) == HOST
    assert b"".join(map(encode_answer, ANSWERED)) == SWITCH


@pytest.mark.parametrize("line", ["s 1", "S1", "S  1", "S one", "T", "?", "S 1 2"])
def test_an_unknown_command_is_returned_unchanged(line: str) -> None:
    assert parse_command(line) == Unknown(text=line)


@pytest.mark.parametrize(("text", "position"), [("1", 1), ("2", 2), ("3", None), ("01", None), ("OSW12", None)])
def test_a_position_is_one_or_two_and_nothing_else(text: str, position: int | None) -> None:
    assert Line(text=text).position == position


def test_a_line_without_an_end_is_refused_at_the_limit() -> None:
    decoder = AnswerDecoder()
    decoder.feed(b"x" * LIMIT_BYTES)
    with pytest.raises(ProtocolError, match=f"limit {LIMIT_BYTES} bytes"):
        decoder.feed(b"x")


@given(st.integers(min_value=-999, max_value=9999))
def test_moves_come_back_as_they_were(position: int) -> None:
    assert CommandDecoder().feed(encode_command(Move(position=position))) == [Move(position=position)]
