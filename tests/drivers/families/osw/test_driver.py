"""Controllers of many selectors: a command keeps the others, reports the state before; wrong sizes are errors."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from hwd_drivers.conformance.bench import Bench
from hwd_drivers.core.errors import DeadlineError, DeviceError
from hwd_drivers.core.values import Crossconnect, Exchange
from hwd_drivers.devices.abilities import CrossConnects, Device
from hwd_drivers.devices.registry import find
from hwd_drivers.twins.server import Denial

Say = Callable[[bytes], Awaitable[bytes | None]]


def soon() -> float:
    return asyncio.get_running_loop().time() + 2.0


def pairs(text: str) -> list[Crossconnect]:
    return [Crossconnect.parse(each) for each in text.split()]


async def change(device: Device, remove: str, add: str) -> Exchange:
    assert isinstance(device, CrossConnects)
    return await device.change_crossconnects(remove=pairs(remove), add=pairs(add), deadline_s=soon())


async def read(device: Device) -> str:
    assert isinstance(device, CrossConnects)
    return " ".join(str(each.crossconnect) for each in await device.read_crossconnects(deadline_s=soon()))


def test_selectors_of_one_controller_have_ends_of_their_own() -> None:
    two = find("osw").capabilities("osw", "2x3")
    assert [str(end) for end in two.ends] == ["1A", "2A", "1B", "2B", "3B", "4B", "5B", "6B"]
    assert [str(pair) for element in two.elements for state in element.states for pair in state] == [
        *("1A-1B", "1A-2B", "1A-3B"),
        *("2A-4B", "2A-5B", "2A-6B"),
    ]
    assert all(element.states[-1] == () for element in two.elements)
    assert [str(end) for end in find("osw").capabilities("osw", "1x4").ends] == ["in", "1", "2", "3", "4"]


def test_a_change_of_some_keeps_the_others(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        assert await say(b"<OSW_OUT_02_03_01>") == b""  # it moves for 8 ms
        await asyncio.sleep(0.01)
        device = await bench.open()
        exchange = await change(device, "2A-9B", "2A-12B")
        assert await read(device) == "1A-2B 2A-12B 3A-13B"
        assert exchange.before == tuple(pairs("1A-2B 2A-9B 3A-13B"))
        assert (exchange.acknowledged_ns - exchange.commanded_ns) / 1e6 == pytest.approx(8)
        await device.close()

    on_twin(story, "osw", "osw", "3x6")


def test_a_change_by_another_client_meanwhile_is_reported(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        device = await bench.open()
        assert await read(device) == "1A-1B 2A-7B"
        await say(b"<OSW_OUT_01_06>")
        await asyncio.sleep(0.01)
        exchange = await change(device, "1A-1B 2A-7B", "1A-3B 2A-8B")
        assert exchange.before == tuple(pairs("1A-1B 2A-12B"))
        assert exchange.commands == 1
        await device.close()

    on_twin(story, "osw", "osw", "2x6")


def test_the_dark_state_is_channel_zero(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        device = await bench.open()
        await change(device, "in-1", "")
        assert await say(b"<OSW_OUT_?>") == b"<OSW_OUT_00>\r\n"
        assert await read(device) == ""
        await change(device, "", "in-8")
        assert await say(b"<OSW_OUT_?>") == b"<OSW_OUT_08>\r\n"
        await device.close()

    on_twin(story, "osw", "osw", "1x8", end="\r\n")


def test_a_channel_that_there_is_not_overflows(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        assert await say(b"<OSW_OUT_09>") == b"<OSW_OUT_OVERFLOW>"
        assert await say(b"<OSW_OUT_?>") == b"<OSW_OUT_01>"

    on_twin(story, "osw", "osw", "1x8")


@pytest.mark.parametrize(
    ("part", "model"), [(None, "LF-OSW-1X8-1550-SM-TWIN"), ("LF-OSW-1X8-1550-PMF", "LF-OSW-1X8-1550-PMF"), ("", "1x8")]
)
def test_the_part_number_is_the_identity(on_twin: Callable[..., None], part: str | None, model: str) -> None:
    async def story(bench: Bench, say: Say) -> None:
        heard = await say(b"<OSW_TYPE_?>")
        assert heard == (f"<OSW_TYPE_{model}>" if part != "" else "<OSW_OUT_OVERFLOW>").encode()
        device = await bench.open()
        assert isinstance(device, Device)
        identity = await device.identify(deadline_s=soon())
        assert (identity.vendor, identity.model) == ("Lfiber", model)
        await device.close()

    on_twin(story, "osw", "osw", "1x8", **({} if part is None else {"part": part}))


def test_an_error_of_the_type_query_names_the_option(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        device = await bench.open()
        assert isinstance(device, Device)
        assert bench.twin is not None
        bench.twin.faults.silent = True
        with pytest.raises(DeadlineError, match=r"needs `options: \{ask_type: false\}`"):
            await device.identify(deadline_s=soon())
        await device.close()

    on_twin(story, "osw", "osw", "1x8")


def test_any_other_word_is_a_no(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        device = await bench.open()
        assert bench.twin is not None
        bench.twin.faults.deny_next = Denial(code="BUSY")
        with pytest.raises(DeviceError, match=r"bench: <OSW_OUT_02>: the device answered BUSY") as caught:
            await change(device, "in-1", "in-2")
        assert caught.value.code == "BUSY"
        assert await read(device) == "in-1"
        await device.close()

    on_twin(story, "osw", "osw", "1x8")


def test_sessions_at_the_same_time_each_get_their_answers(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        one, other = await bench.open(), await bench.open()
        await asyncio.gather(change(one, "1A-1B 2A-7B", "1A-2B 2A-8B"), read(other), read(one))
        assert await read(one) == await read(other) == "1A-2B 2A-8B"
        await one.close()
        await other.close()

    on_twin(story, "osw", "osw", "2x6")


def test_two_changes_at_once_do_not_undo_each_other(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        device = await bench.open()
        await asyncio.gather(change(device, "1A-1B", "1A-2B"), change(device, "2A-7B", "2A-9B"))
        assert await read(device) == "1A-2B 2A-9B"
        await device.close()

    on_twin(story, "osw", "osw", "2x6")


def test_a_selector_that_another_client_moved_between_look_and_set_is_given_back(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        assert bench.twin is not None
        device = await bench.open()
        bench.twin.faults.slow_s = 0.3
        changing = asyncio.create_task(change(device, "2A-7B", "2A-9B"))
        await asyncio.sleep(0.1)
        await say(b"<OSW_OUT_05_01>")
        exchange = await changing
        bench.twin.faults.slow_s = 0.0
        assert await read(device) == "1A-5B 2A-9B"
        assert exchange.before == tuple(pairs("1A-5B 2A-7B"))
        assert exchange.commands == 2
        await device.close()

    on_twin(story, "osw", "osw", "2x6")
