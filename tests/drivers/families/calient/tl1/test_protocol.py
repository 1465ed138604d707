"""Calient TL1: captures cut at every byte, and commands in all forms that programs send."""

from pathlib import Path

import pytest

from hwd_drivers.codecs.tl1 import AnswerDecoder
from hwd_drivers.codecs.tl1_messages import Alarm, Answer, Autonomous, Completion, Message
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.values import Identity
from hwd_drivers.families.calient.tl1 import protocol
from hwd_drivers.twins.virtual_time import run_virtual

from .....answers import check_answers
from ....stage import Stage


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
    element = protocol.read_element(answer("element"))
    assert element == Identity(vendor="Calient", model="S162", serial="C00001234", firmware="6.0-3")
    assert answer("element").ctag == "0", "a command without a CTAG is answered with 0"


def test_ports_are_read() -> None:
    assert protocol.read_ports(answer("ports")) == ("1.1.1", "6.1.1")


def test_powers_are_read() -> None:
    assert protocol.read_powers(answer("summary")) == {"1.1.1": (-3.4, None)}


def test_connections_are_read_with_unknown_fields() -> None:
    numbers = {"2.3.6": 1, "3.2.5": 2, "2.8.5": 3, "2.3.3": 4}
    both, one = protocol.read_connections(answer("connections"), numbers)
    assert (both.source, both.destination, both.two_way, both.group) == (1, 2, True, "LAB")
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
    """What the twin answers: the code, data lines and comments."""

    async def ask() -> bytes:
        async with Stage("calient-tl1", "calient-s160", "8") as stage:
            await stage.start()
            client = await stage.connect()
            await client.ask("ACT-USER::admin:1::root;")
            return await client.say(f"{text};".encode(), within_s=3)

    (found,) = (each for each in decode(run_virtual(ask())) if isinstance(each, Answer))
    return "\n".join([f"{found.code} {found.error}".rstrip(), *found.lines, *found.comments])


def test_commands_are_answered_in_all_forms_that_programs_send() -> None:
    check_answers(Path(__file__).with_name("commands.txt"), {"command": asked})
