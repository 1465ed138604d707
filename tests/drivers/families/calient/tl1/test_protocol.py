"""Calient TL1: captures cut at every byte, round trips of requests, nearly right and arbitrary bytes, both sides."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.codecs.tl1 import AnswerDecoder, encode_command, parse_command
from hwd_drivers.codecs.tl1_messages import Alarm, Answer, Autonomous, Completion, Message
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.families.calient.tl1 import lines, protocol

from .....answers import check_answers


def captures() -> dict[str, bytes]:
    text = Path(__file__).with_name("captures.txt").read_text(encoding="utf-8")
    rows = [line.partition(" ") for line in text.splitlines() if line and not line.startswith("#")]
    return {name: bytes_.replace("\\r", "\r").replace("\\n", "\n").encode() for name, _, bytes_ in rows}


CAPTURES = captures()


def decode(*parts: bytes) -> list[Message]:
    decoder = AnswerDecoder(prompt=protocol.PROMPT)
    return [message for part in parts for message in decoder.feed(part)]


def answer(name: str) -> Answer:
    (message,) = decode(CAPTURES["ready"] + CAPTURES[name])
    assert isinstance(message, Answer)
    return message


def test_a_session_is_the_same_wherever_it_is_cut() -> None:
    session = b"".join(CAPTURES.values())
    whole = decode(session)
    assert len(whole) == len(CAPTURES) - 1
    for cut in range(len(session) + 1):
        assert decode(session[:cut], session[cut:]) == whole


def test_a_session_comes_bytewise() -> None:
    session = b"".join(CAPTURES.values())
    assert decode(*(bytes([byte]) for byte in session)) == decode(session)


def test_a_prompt_alone_is_no_message_and_does_not_grow() -> None:
    decoder = AnswerDecoder(prompt=protocol.PROMPT, limit_bytes=1000)
    with pytest.raises(ProtocolError, match="limit 1000 bytes"):
        for _ in range(200):
            assert decoder.feed(b"\r\nagent>") == []


def test_without_the_prompt_said_it_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="agent>"):
        AnswerDecoder().feed(CAPTURES["ready"] + CAPTURES["login"])


def test_the_login_has_its_notice() -> None:
    login = answer("login")
    assert (login.ctag, login.code, login.lines) == ("1", Completion.COMPLD, ("lab:lab,2",))
    assert login.comments[0].startswith("NOTICE This is a private computer system.")


def test_the_element_is_read() -> None:
    element = lines.read_element(answer("element"))
    assert element == lines.Element(serial="C00001234", firmware="6.0-3", chassis="S162")
    assert answer("element").ctag == "0", "a command without a CTAG is answered with 0"


def test_ports_are_read() -> None:
    assert lines.read_ports(answer("ports")) == ("1.1.1", "6.1.1")


def test_the_summary_is_read() -> None:
    found = lines.read_summary(answer("summary"))
    assert found == {
        "1.1.1": lines.SummaryLine(port="1.1.1", in_dbm=-3.4, out_dbm=None, connections=(("1.1.1>1.1.2", True), None))
    }


def test_connections_are_read_with_unknown_fields() -> None:
    both, one = lines.read_connections(answer("connections"))
    assert (both.source, both.destination, both.two_way, both.group) == ("2.3.6", "3.2.5", True, "LAB")
    assert (both.admin, both.operation, both.capability) == ("UMA", "RDY", "OK")
    assert (one.name, one.two_way, one.admin, one.operation) == ("2.8.5>2.3.3", False, "IS", "IS")


def test_an_alarm_in_between_is_no_answer() -> None:
    (message,) = decode(CAPTURES["alarm"])
    assert isinstance(message, Autonomous)
    assert (message.alarm, message.verb) == (Alarm.MINOR, "REPT ALM CRS")


@pytest.mark.parametrize("name", ["again", "in-use"])
def test_denials_have_their_words(name: str) -> None:
    assert answer(name).code is Completion.DENY
    assert answer(name).comments


def asked(text: str) -> str:
    """What it means, and its form on the wire where we write another one; the first is what programs send."""
    try:
        request = protocol.from_command(parse_command(text))
    except protocol.DenyError as error:
        return f"denied {error.code} {error.text}".rstrip()
    wire = encode_command(protocol.to_command(request), ctag="7").decode().removesuffix(";\n")
    return f"{request}" + (f"\nwritten {wire}" if wire != text else "")


def test_commands_have_one_meaning_and_one_form() -> None:
    check_answers(Path(__file__).with_name("commands.txt"), {"command": asked})


def test_the_password_does_not_show() -> None:
    assert "geheim" not in repr(protocol.Login(user="lab", password="geheim"))


names = st.from_regex(r"[1-9]\.[1-9]\.[1-8]", fullmatch=True)
words = st.from_regex(r"[A-Z]{1,6}", fullmatch=True)
connections = st.builds(
    lines.ConnectionLine,
    name=st.from_regex(r"[A-Za-z0-9.>_-]{1,20}", fullmatch=True),
    group=words,
    source=names,
    destination=names,
    two_way=st.booleans(),
    admin=words,
    operation=words,
    capability=words,
)
powers = st.none() | st.integers(min_value=-600, max_value=200).map(lambda tenth: tenth / 10)
held = st.none() | st.tuples(st.just("1.1.1>1.1.2"), st.booleans())
summaries = st.builds(
    lines.SummaryLine,
    port=names,
    alias=st.none() | st.from_regex(r"[a-z][a-z, ]{0,10}[a-z]", fullmatch=True),
    in_dbm=powers,
    out_dbm=powers,
    connections=st.tuples(held, held),
)


def told(data: tuple[str, ...]) -> Answer:
    return Answer(ctag="1", code=Completion.COMPLD, lines=data)


@given(st.lists(connections, max_size=4))
def test_connections_come_back_as_they_were(found: list[lines.ConnectionLine]) -> None:
    assert list(lines.read_connections(told(lines.write_connections(found)))) == found


@given(st.lists(summaries, max_size=4, unique_by=lambda line: line.port))
def test_summaries_come_back_as_they_were(found: list[lines.SummaryLine]) -> None:
    assert list(lines.read_summary(told(lines.write_summary(found))).values()) == found
