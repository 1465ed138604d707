"""Leoni switches: a selection without an answer is read back."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from hwd_drivers.conformance.bench import Bench
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.devices.abilities import CrossConnects

Say = Callable[[bytes], Awaitable[bytes | None]]


@pytest.mark.parametrize(("channel", "took_ms"), [("wanted", 0.0), ("moved", 8.0)])
def test_a_selection_is_done_when_the_switch_reports_its_channel(
    channel: str, took_ms: float, on_twin: Callable[..., None]
) -> None:
    async def story(bench: Bench, say: Say) -> None:
        device = await bench.open()
        assert isinstance(device, CrossConnects)
        soon = asyncio.get_running_loop().time() + 1
        exchange = await device.change_crossconnects(
            remove=[Crossconnect.parse("in-1")], add=[Crossconnect.parse("in-16")], deadline_s=soon
        )
        assert (exchange.acknowledged_ns - exchange.commanded_ns) / 1e6 == pytest.approx(took_ms)
        assert await say(b"ch?\r\n") == b"16\r\n"
        identity = await device.identify(deadline_s=soon)
        assert str(identity) == "Leoni mol 1x16 serial not reported firmware V2.4"
        await device.close()

    on_twin(story, "leoni", "eol", "1x16", channel=channel, family="mol", firmware="V2.4")
