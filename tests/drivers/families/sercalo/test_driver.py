"""Sercalo switches: errors in the device's own words, the state before a change, and identity."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from hwd_drivers.conformance.bench import Bench
from hwd_drivers.core.errors import DeviceError, ProtocolError
from hwd_drivers.core.values import Crossconnect, Exchange
from hwd_drivers.devices.abilities import CrossConnects, Device
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

Say = Callable[[bytes], Awaitable[bytes | None]]


def soon() -> float:
    return asyncio.get_running_loop().time() + 1


async def select(device: Device, channel: int) -> Exchange:
    assert isinstance(device, CrossConnects)
    return await device.change_crossconnects(remove=(), add=[Crossconnect.parse(f"in-{channel}")], deadline_s=soon())


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


@pytest.mark.parametrize(("driver", "model"), [("sercalo", "rsc"), ("sercalo-ascii", "usb")])
def test_a_selection_is_acknowledged_after_the_move_with_the_state_before(
    driver: str, model: str, on_twin: Callable[..., None]
) -> None:
    async def story(bench: Bench, say: Say) -> None:
        device = await bench.open()
        await select(device, 5)
        exchange = await select(device, 8)
        assert (exchange.acknowledged_ns - exchange.commanded_ns) / 1e6 == pytest.approx(8)
        assert exchange.before == (Crossconnect.parse("in-5"),)
        identity = await device.identify(deadline_s=soon())
        assert identity.vendor == "Sercalo"
        assert "1x8" in identity.model
        await device.close()

    on_twin(story, driver, model, "1x8")


@pytest.mark.parametrize(
    ("driver", "model", "denial", "said"),
    [
        ("sercalo", "rsc", Denial(code="2"), r"bench: select channel 2: the device answered 2 \(invalid parameter\)"),
        ("sercalo-ascii", "usb", Denial(code=":nack"), "bench: :set-chan-2: the device answered :nack"),
    ],
)
def test_a_refusal_has_the_text_of_the_device(
    driver: str, model: str, denial: Denial, said: str, on_twin: Callable[..., None]
) -> None:
    async def story(bench: Bench, say: Say) -> None:
        assert bench.twin is not None
        device = await bench.open()
        bench.twin.faults.deny_next = denial
        with pytest.raises(DeviceError, match=said) as caught:
            await select(device, 2)
        assert caught.value.code == denial.code
        await device.close()

    on_twin(story, driver, model, "1x8")
