"""Leoni switches: a selection without an answer is read back."""

import pytest

from ...stage import Stage, in_virtual_time


@pytest.mark.parametrize(("channel", "took_ms"), [("wanted", 0.0), ("moved", 8.0)])
@in_virtual_time
async def test_a_selection_is_done_when_the_switch_reports_its_channel(channel: str, took_ms: float) -> None:
    async with Stage("leoni", "eol", "1x16", timing="lowradix-8ms") as stage:
        _, switch = await stage.start_and_open(channel=channel, family="mol", firmware="V2.4")
        exchange = await switch.change(remove="in-1", add="in-16")
        assert (exchange.acknowledged_ns - exchange.commanded_ns) / 1e6 == pytest.approx(took_ms)
        assert await (await stage.connect()).say(b"ch?\r\n") == b"16\r\n"
        assert str(await switch.identify()) == "Leoni mol 1x16 serial not reported firmware V2.4"
