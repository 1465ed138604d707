"""Sercalo switches: errors in the device's own words, the state before a change, and identity."""

import pytest

from hwd_drivers.core.errors import DeviceError, ProtocolError
from hwd_drivers.families.sercalo.protocol import (
    Answer,
    AnswerDecoder,
    Code,
    Command,
    Info,
    encode_answer,
    encode_command,
    read_info,
    write_info,
)
from hwd_drivers.twins.server import Denial

from ...stage import Stage, in_virtual_time, texts


def test_frames_are_those_that_the_published_program_has_as_constants() -> None:
    assert encode_command(Command(code=Code.INFO)) == bytes.fromhex("efef03ff01e1")
    assert encode_command(Command(code=Code.WHERE)) == bytes.fromhex("efef03ff02e2")
    assert encode_command(Command(code=Code.RESET)) == bytes.fromhex("efef03ff03e3")


def test_a_wrong_checksum_from_the_module_is_refused() -> None:
    data = bytearray(encode_answer(Answer(code=Code.WHERE, data=b"\x03")))
    data[-1] ^= 1
    with pytest.raises(ProtocolError, match="wrong checksum"):
        AnswerDecoder().feed(bytes(data))


def test_information_comes_back_as_it_was() -> None:
    info = Info(vendor="Sercalo", type="RSC1x8", hardware="1.0", firmware="3.12", serial="AB0012")
    assert read_info(write_info(info)) == info


@pytest.mark.parametrize("data", [b"", b"x" * 28, b"\xff" * 40])
def test_invalid_information_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="not information"):
        read_info(data)


@pytest.mark.parametrize(
    ("driver", "model", "denial", "said"),
    [
        ("sercalo", "rsc", Denial(code="2"), r"ocs1: select channel 2: the device answered 2 \(invalid parameter\)"),
        ("sercalo-ascii", "usb", Denial(code=":nack"), "ocs1: :set-chan-2: the device answered :nack"),
    ],
)
@in_virtual_time
async def test_a_selection_reports_the_state_before_and_a_refusal_has_the_text_of_the_device(
    driver: str, model: str, denial: Denial, said: str
) -> None:
    async with Stage(driver, model, "1x8", timing="lowradix-8ms") as stage:
        twin, switch = await stage.start_and_open()
        await switch.change(add="in-5")
        exchange = await switch.change(add="in-8")
        assert (exchange.acknowledged_ns - exchange.commanded_ns) / 1e6 == pytest.approx(8)
        assert texts(exchange.before or ()) == "in-5"
        identity = await switch.identify()
        assert identity.vendor == "Sercalo"
        assert "1x8" in identity.model
        twin.faults.deny_next = denial
        with pytest.raises(DeviceError, match=said) as caught:
            await switch.change(add="in-2")
        assert caught.value.code == denial.code
