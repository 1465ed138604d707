"""TL1 framing: round trips, arbitrary bytes, and captures cut at every byte."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.codecs.tl1 import (
    AnswerDecoder,
    CommandDecoder,
    ctag_of,
    encode_acknowledgement,
    encode_answer,
    encode_autonomous,
    encode_command,
    parse_command,
    stamp,
)
from hwd_drivers.codecs.tl1_messages import (
    AckCode,
    Acknowledgement,
    Alarm,
    Answer,
    Autonomous,
    Command,
    Completion,
    Message,
)
from hwd_drivers.codecs.tl1_words import format_group, parse_group
from hwd_drivers.core.errors import ProtocolError

from ...answers import check_answers

PATCHES = (
    b'\r\n\n   PolatisOXC 26-11-20 10:11:12\r\nM  123 COMPLD\r\n   "1,49"\r\n   "2,50"\r\n;\r\n',
    [Answer(ctag="123", code=Completion.COMPLD, lines=("1,49", "2,50"), sid="PolatisOXC", stamp="26-11-20 10:11:12")],
)
DENIED = (
    b"\r\n\n   ( nil ) 26-11-20 10:11:12\r\nM  7 DENY\r\n   IIAC\r\n   /* Invalid OXC port: 99 */\r\n;\r\n",
    [
        Answer(
            ctag="7",
            code=Completion.DENY,
            error="IIAC",
            comments=("Invalid OXC port: 99",),
            sid="( nil )",
            stamp="26-11-20 10:11:12",
        )
    ],
)
SLOW_WITH_REPORT = (
    b"\r\nIP 8\r\n<\r\n\n   OXC 26-11-20 10:11:12\r\nA  17 REPT EVT PATCH\r\n"
    b'   "33:NA,TUNED,NSA,,,,,:\\"1,33; up\\""\r\n;\r\n'
    b'\r\n\n   OXC 26-11-20 10:11:13\r\nM  8 COMPLD\r\n   "1,49"\r\n>\r\n'
    b'\r\n\n   OXC 26-11-20 10:11:13\r\nM  8 COMPLD\r\n   "2,50"\r\n   /* that\r\n is all */\r\n;\r\n',
    [
        Acknowledgement(ctag="8", code=AckCode.IP),
        Autonomous(
            alarm=Alarm.NONE,
            atag="17",
            verb="REPT EVT PATCH",
            lines=('33:NA,TUNED,NSA,,,,,:"1,33; up"',),
            sid="OXC",
            stamp="26-11-20 10:11:12",
        ),
        Answer(
            ctag="8",
            code=Completion.COMPLD,
            lines=("1,49", "2,50"),
            comments=("that is all",),
            sid="OXC",
            stamp="26-11-20 10:11:13",
        ),
    ],
)
PROMPTED = (
    b'\r\n\n   GG 26-11-20 10:11:12\r\nM  1 COMPLD\r\n   "a"\r\n>\r\n<'
    b'\r\n\n   GG 26-11-20 10:11:12\r\nM  1 COMPLD\r\n   "b"\r\n;\r\n<',
    [Answer(ctag="1", code=Completion.COMPLD, lines=("a", "b"), sid="GG", stamp="26-11-20 10:11:12")],
)
CAPTURES = pytest.mark.parametrize(
    ("capture", "messages"),
    [PATCHES, DENIED, SLOW_WITH_REPORT, PROMPTED],
    ids=["patches", "denied", "slow-with-report", "prompted"],
)

words = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=12)
ctags = st.from_regex(r"[A-Za-z0-9]{1,6}", fullmatch=True)
texts = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]) | st.just(" "), max_size=30)
plain = texts.map(str.strip).filter(lambda text: bool(text) and "*/" not in text and "/*" not in text)
lines = st.lists(texts.map(str.strip), max_size=5).map(tuple)
stamps = st.just("26-11-20 10:11:12")
answers = st.builds(
    Answer,
    ctag=ctags,
    code=st.sampled_from(Completion),
    lines=lines,
    comments=st.lists(plain, max_size=2).map(tuple),
    sid=words,
    stamp=stamps,
)
reports = st.builds(
    Autonomous, alarm=st.sampled_from(Alarm), atag=words, verb=words, lines=lines, sid=words, stamp=stamps
)
acknowledgements = st.builds(Acknowledgement, ctag=ctags, code=st.sampled_from(AckCode))
commands = st.builds(
    Command,
    verb=st.from_regex(r"[A-Z]{2,4}(-[A-Z]{2,5}){0,2}", fullmatch=True),
    tid=texts,
    aid=st.from_regex(r"[0-9&,A-Z]{0,20}", fullmatch=True),
    ctag=ctags,
    positional=st.lists(texts.filter(bool), max_size=3).map(tuple),
    named=st.lists(st.tuples(st.from_regex(r"[A-Z]{1,8}", fullmatch=True), texts), max_size=3).map(tuple),
)


def encode(message: Message) -> bytes:
    match message:
        case Answer():
            return encode_answer(message)
        case Autonomous():
            return encode_autonomous(message)
        case Acknowledgement():
            return encode_acknowledgement(message)


@CAPTURES
def test_a_capture_decodes_cut_at_every_byte_and_byte_by_byte(capture: bytes, messages: list[Message]) -> None:
    for cut in range(len(capture) + 1):
        decoder = AnswerDecoder()
        assert decoder.feed(capture[:cut]) + decoder.feed(capture[cut:]) == messages
    decoder = AnswerDecoder()
    assert [message for byte in capture for message in decoder.feed(bytes([byte]))] == messages


def test_an_answer_has_the_bytes_that_clients_parse_its_date_in_utc_and_ends_at_its_terminator() -> None:
    assert encode_answer(PATCHES[1][0]) == PATCHES[0]
    assert encode_answer(DENIED[1][0]) == DENIED[0]
    assert AnswerDecoder().feed(PATCHES[0].removesuffix(b"\r\n")) == PATCHES[1]
    assert stamp(86_399_999_999_999) == "70-01-01 23:59:59"


@given(st.lists(answers | reports | acknowledgements, max_size=4), st.integers(1, 40))
def test_messages_come_back_as_they_were(messages: list[Message], step: int) -> None:
    wire = b"".join(encode(message) for message in messages)
    decoder = AnswerDecoder()
    assert [m for at in range(0, len(wire), step) for m in decoder.feed(wire[at : at + step])] == messages


@given(answers, st.integers(1, 3))
def test_blocks_of_an_answer_are_joined(answer: Answer, lines_per_block: int) -> None:
    assert AnswerDecoder().feed(encode_answer(answer, lines_per_block=lines_per_block)) == [answer]


@given(commands, st.integers(1, 40))
def test_commands_come_back_as_they_were(command: Command, step: int) -> None:
    wire = encode_command(command)
    decoder = CommandDecoder()
    texts = [text for at in range(0, len(wire), step) for text in decoder.feed(wire[at : at + step])]
    assert [parse_command(text) for text in texts] == [command]


def command(text: str) -> str:
    try:
        found = parse_command(text)
    except ProtocolError as error:
        return f"{type(error).__name__}: {error}; answered with CTAG {ctag_of(text)}"
    return f"{found!r} {found.positional} {found.named}"


def group(text: str) -> str:
    try:
        members = parse_group(text)
    except ProtocolError as error:
        return str(error)
    return " ".join(members) + (f", written {format_group([*map(int, members)])}" if members[0].isdigit() else "")


def garbage(text: str) -> str:
    with pytest.raises(ProtocolError) as found:
        AnswerDecoder().feed(text.encode().decode("unicode_escape").encode("latin-1"))
    return str(found.value)


def test_commands_groups_and_garbage_are_read_as_they_were() -> None:
    assert "not a range of rising numbers" in group("1&&" + "9" * 5000)
    check_answers(Path(__file__).with_name("tl1.txt"), {"command": command, "group": group, "garbage": garbage})


def test_half_an_answer_is_never_read_as_a_complete_one() -> None:
    for cut in range(len(b"\r\n\n   P"), len(PATCHES[0]) - len(b";\r\n")):
        with pytest.raises(ProtocolError):
            pytest.fail(f"cut at {cut}: {AnswerDecoder().feed(PATCHES[0][:cut] + PATCHES[0])}")


def test_what_has_no_end_is_refused_at_the_limit_which_idle_line_feeds_never_reach() -> None:
    decoder = AnswerDecoder(limit_bytes=100)
    for _ in range(100):
        decoder.feed(b"x")
    with pytest.raises(ProtocolError, match="limit 100 bytes"):
        decoder.feed(b"x")
    decoder = AnswerDecoder(limit_bytes=200)
    block = b'\r\n\n   OXC 26-11-20 10:11:12\r\nM  1 COMPLD\r\n   "1,2"\r\n>\r\n'
    for _ in range(200 // len(block)):
        decoder.feed(block)
    with pytest.raises(ProtocolError, match="limit 200 bytes"):
        decoder.feed(block)
    with pytest.raises(ProtocolError, match="limit 8 bytes"):
        CommandDecoder(limit_bytes=8).feed(b"RTRV-PATCH")
    decoder = AnswerDecoder(limit_bytes=10)
    for _ in range(100):
        assert decoder.feed(b"\r\n") == []


def test_a_semicolon_in_quotes_does_not_end_a_command_and_a_password_is_not_shown() -> None:
    texts = CommandDecoder().feed(b'ED-PORT-LABEL::2:c:::LABEL="a;b\\"c";\nRTRV-HDR:::1:;')
    assert parse_command(texts[0]).named == (("LABEL", 'a;b"c'),)
    assert texts[1] == "RTRV-HDR:::1:"
    command = Command(verb="ACT-USER", aid="admin", ctag="1", positional=("geheim",))
    assert "geheim" not in f"{command} {command!r}"


@given(st.lists(st.integers(0, 50), min_size=1, max_size=20))
def test_a_group_keeps_the_order_of_its_numbers(numbers: list[int]) -> None:
    assert parse_group(format_group(numbers)) == tuple(map(str, numbers))
