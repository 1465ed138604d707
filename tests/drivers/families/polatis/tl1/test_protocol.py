"""Polatis over TL1: commands in all forms that programs send, and data lines of another form."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hwd_drivers.codecs.tl1 import AnswerDecoder
from hwd_drivers.codecs.tl1_messages import Answer, Completion, Message
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.families.polatis.tl1 import protocol
from hwd_drivers.twins.virtual_time import run_virtual

from .....answers import check_answers
from ....stage import Stage


def decode(data: bytes) -> list[Message]:
    return AnswerDecoder().feed(data)


def answer(*lines: str) -> Answer:
    return Answer(ctag="1", code=Completion.COMPLD, lines=lines)


def asked(text: str) -> str:
    """What the twin answers: the code, data lines and comments."""

    async def ask() -> bytes:
        async with Stage("polatis-tl1", "polatis-vst", "48x48") as stage:
            await stage.start()
            client = await stage.connect()
            await client.ask("ACT-USER::admin:1::root;")
            return await client.say(f"{text};".encode(), within_s=3)

    (found,) = (each for each in decode(run_virtual(ask())) if isinstance(each, Answer))
    return "\n".join([f"{found.code} {found.error}".rstrip(), *found.lines, *found.comments])


def test_commands_are_answered_in_all_forms_that_programs_send() -> None:
    check_answers(Path(__file__).with_name("commands.txt"), {"command": asked})


def test_no_attenuators_and_several_in_one_line_are_read() -> None:
    assert protocol.read_attenuators(answer("ATTEN::MODE=NONE")) == frozenset()
    assert protocol.read_attenuators(answer("ATTEN::MODE=ABSOLUTE|CONVERGED")) == {"ABSOLUTE", "CONVERGED"}


@pytest.mark.parametrize(
    "read",
    [
        lambda found: protocol.read_patch(found.lines[0]),
        protocol.read_powers,
        protocol.read_type,
        protocol.read_serial,
        protocol.read_size,
        protocol.read_monitors,
        protocol.read_shutters,
        protocol.read_attenuators,
        protocol.read_attenuation,
    ],
)
@given(text=st.text(max_size=20))
@example(text="1," + "9" * 5000)
@example(text="1:" + "9" * 5000)
@example(text="SIZE=1x" + "9" * 5000)
@example(text="PORT=" + "9" * 5000)
@example(text="9:ABS," + "9" * 5000)
def test_a_wrong_data_line_is_a_protocol_error(read: object, text: str) -> None:
    assert callable(read)
    with contextlib.suppress(ProtocolError):
        read(answer(text))
