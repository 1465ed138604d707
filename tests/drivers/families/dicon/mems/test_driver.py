"""DiCon MEMS modules: parking, and the echo of commands, which is no answer."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from hwd_drivers.conformance.bench import Bench
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.devices.abilities import CrossConnects

Say = Callable[[bytes], Awaitable[bytes | None]]


@pytest.mark.parametrize("echo", [False, True])
def test_the_module_is_selected_parked_and_read_with_and_without_its_echo(
    echo: bool, on_twin: Callable[..., None]
) -> None:
    async def story(bench: Bench, say: Say) -> None:
        device = await bench.open()
        assert isinstance(device, CrossConnects)
        soon = asyncio.get_running_loop().time() + 1
        first, last = Crossconnect.parse("in-1"), Crossconnect.parse("in-16")
        await device.change_crossconnects(remove=[first], add=[last], deadline_s=soon)
        assert [each.crossconnect for each in await device.read_crossconnects(deadline_s=soon)] == [last]
        await device.change_crossconnects(remove=[last], add=[], deadline_s=soon)
        assert await device.read_crossconnects(deadline_s=soon) == ()
        assert await say(b"I1?\r") == (b"I1?" if echo else b"") + b"\n0\r\n"
        assert (await device.identify(deadline_s=soon)).model == "MEMS 1x16 no 7"
        assert (await device.capabilities(deadline_s=soon)).elements == bench.capabilities.elements
        await device.close()

    on_twin(story, "dicon-mems", "mems", "1x16", echo=echo, identity="MEMS 1x16 no 7")
