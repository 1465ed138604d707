"""A switch without queries: nothing is sent when a session opens, and a reading is the last set state."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from hwd_drivers.conformance.bench import Bench
from hwd_drivers.core.errors import DeadlineError, DeviceError, LinkError, ProtocolError
from hwd_drivers.core.values import Crossconnect, Exchange
from hwd_drivers.devices.abilities import CrossConnects, Device
from hwd_drivers.twins.server import Denial

Say = Callable[[bytes], Awaitable[bytes | None]]


def soon(seconds: float = 1.0) -> float:
    return asyncio.get_running_loop().time() + seconds


async def select(device: Device, port: int, *, within_s: float = 1.0) -> Exchange:
    assert isinstance(device, CrossConnects)
    return await device.change_crossconnects(
        remove=(), add=[Crossconnect.parse(f"in-{port}")], deadline_s=soon(within_s)
    )


async def read(device: Device) -> str:
    assert isinstance(device, CrossConnects)
    return " ".join(str(each.crossconnect) for each in await device.read_crossconnects(deadline_s=soon()))


def test_a_session_knows_the_state_that_it_set_and_none_before(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        assert bench.twin is not None
        assert await say(b"\x01\x35\x00\x06") == b""  # it moves for 8 ms
        await asyncio.sleep(0.01)
        device = await bench.open()
        await device.identify(deadline_s=soon())
        assert await read(device) == ""
        assert [str(pair) for pair in bench.twin.mirror.crossconnects()] == ["in-7"]  # nothing moved it
        exchange = await select(device, 3)
        assert (exchange.acknowledged_ns - exchange.commanded_ns) / 1e6 == pytest.approx(8)
        assert await read(device) == "in-3"
        await device.close()
        with pytest.raises(LinkError):
            await read(device)

    on_twin(story, "agiltron", "selfalign", "1x16")


def test_a_refusal_keeps_the_last_set_state(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        assert bench.twin is not None
        device = await bench.open()
        await select(device, 3)
        bench.twin.faults.deny_next = Denial(code="00e1")
        with pytest.raises(DeviceError, match="bench: select port 4: the device answered 00e1") as caught:
            await select(device, 4)
        assert caught.value.code == "00e1"
        assert await read(device) == "in-3"
        await device.close()

    on_twin(story, "agiltron", "selfalign", "1x16")


def test_a_selection_that_is_not_answered_ends_the_session(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        assert bench.twin is not None
        device = await bench.open()
        bench.twin.faults.silent = True
        with pytest.raises(DeadlineError, match=r"select port 4: no answer within 0\.5 s"):
            await select(device, 4, within_s=0.5)
        with pytest.raises(LinkError):
            await read(device)
        await device.close()

    on_twin(story, "agiltron", "selfalign", "1x16")


def test_an_answer_to_something_else_ends_the_session_and_moves_nothing_else(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        assert bench.twin is not None
        device = await bench.open()
        bench.twin.faults.wrong_next = True
        with pytest.raises(ProtocolError, match="is not an answer to select port 5"):
            await select(device, 5)
        assert [str(pair) for pair in bench.twin.mirror.crossconnects()] == ["in-5"]
        await device.close()

    on_twin(story, "agiltron", "selfalign", "1x16")
