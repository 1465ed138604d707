"""A restart of a switch between two sessions is not taken for a foreign change: real sockets, several families."""

import asyncio
from typing import Any

import pytest

from hwd_drivers.conformance.arrangements import Arrangements
from hwd_drivers.transports.dial import TcpDialer

from .stage import Stage

OFF_S = 0.3
"""How long the unit is without power."""


async def restart(
    driver: str, model: str, size: str | None, **options: Any
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Make a crossconnect and cut the power; returns the reported restarts, and the first reading after it."""
    async with Stage(driver, model, size, dialer=TcpDialer()) as stage:
        twin = await stage.start(**options)
        supervisor = stage.supervise(poll_s=0.1, longest_retry_s=0.2)
        running = stage.run(supervisor)
        await asyncio.wait_for(supervisor.wait_up(), 30)
        arranged = Arrangements.of(stage.capabilities)
        await supervisor.change(
            remove=[*arranged.rest - arranged.one], add=[*arranged.one - arranged.rest], deadline_s=stage.now_s + 30
        )
        await stage.until(lambda: bool(stage.told("switch.read")[-1]["added"]))
        reads = len(stage.told("switch.read"))
        twin.faults.reboot(OFF_S)
        await stage.until(lambda: len(stage.told("switch.up")) == 2)
        await stage.until(lambda: len(stage.told("switch.read")) > reads)
        assert not running.done()
        return stage.told("switch.restarted"), stage.told("switch.read")[reads]


@pytest.mark.parametrize(
    ("driver", "model", "size"),
    [
        ("polatis-tl1", "polatis-6000", "8x8"),
        ("polatis-scpi", "polatis-6000", "8x8"),
        ("polatis-restconf", "polatis-6000", "8x8"),
        ("polatis-netconf", "polatis-6000", "8x8"),
        ("osw", "osw", "4x6"),
        ("dicon-mxs", "mxs-9100", "8x8"),
    ],
)
async def test_non_latching_unit_without_uptime_seems_to_have_restarted(driver: str, model: str, size: str) -> None:
    (told,), read = await restart(driver, model, size)
    assert (told["sign"], told["uptime_s"]) == ("at-rest", None)
    assert told["lost"] == read["removed"] != []
    assert read["ours"] is True
    assert told["unheard_s"] >= OFF_S


async def test_calient_that_comes_back_empty_seems_to_have_restarted() -> None:
    (told,), read = await restart("calient-tl1", "calient-s160", None, power_up="empty")
    assert (told["sign"], read["ours"]) == ("at-rest", True)


@pytest.mark.parametrize(("startup", "gone"), [("config", False), ("dark", True)])
async def test_unit_with_uptime_has_restarted_for_certain(startup: str, gone: bool) -> None:
    (told,), read = await restart("sonic-ocs", "sonic-ocs", "8x8", startup=startup)
    assert (told["sign"], told["uptime_s"]) == ("uptime", 0.0)
    assert bool(told["lost"]) is gone
    assert read["ours"] is True


async def test_latching_unit_has_lost_nothing_and_no_change_is_foreign() -> None:
    restarts, read = await restart("ttl", "latching-1x2", None)
    assert restarts == []
    assert (read["removed"], read["ours"]) == ([], True)
