"""DiCon MEMS modules: parking, and the echo of commands, which is no answer."""

import pytest

from ....stage import Stage, in_virtual_time


@pytest.mark.parametrize("echo", [False, True])
@in_virtual_time
async def test_the_module_is_selected_parked_and_read_with_and_without_its_echo(echo: bool) -> None:
    async with Stage("dicon-mems", "mems", "1x16", timing="lowradix-8ms") as stage:
        _, switch = await stage.start_and_open(echo=echo, identity="MEMS 1x16 no 7")
        await switch.change(remove="in-1", add="in-16")
        assert await switch.pairs() == "in-16"
        await switch.change(remove="in-16")
        assert await switch.pairs() == ""
        assert await (await stage.connect()).say(b"I1?\r") == (b"I1?" if echo else b"") + b"\n0\r\n"
        assert (await switch.identify()).model == "MEMS 1x16 no 7"
        assert (await switch.capabilities()).elements == stage.capabilities.elements
