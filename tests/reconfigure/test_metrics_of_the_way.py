"""What the metrics say of a reconfiguration on its way, in a whole world: of its links, and of what stays open."""

import asyncio

import pytest

from hwd.model.documents.reconfigurations import ReconfigurationState
from hwd_drivers.core.errors import NotReadyError

from .conftest import CROSSED, STRAIGHT, Lab

STRAIGHT_LINKS = {"h0.eth0<->h1.eth0", "h0.eth1<->h1.eth1"}
CROSSED_LINKS = {"h0.eth0<->h1.eth1", "h0.eth1<->h1.eth0"}


def ready(lab: Lab) -> dict[str, float]:
    return {link: value for (link,), value in lab.metrics("hwd_link_ready").items()}


async def test_links_are_not_ready_on_the_way_and_ready_at_its_end(lab: Lab) -> None:
    await lab.apply(STRAIGHT, ready_within_s=15)
    assert ready(lab) == dict.fromkeys(STRAIGHT_LINKS, 1)
    applying = asyncio.create_task(lab.apply(CROSSED, ready_within_s=15))
    await lab.until(ReconfigurationState, state="waiting")
    await asyncio.sleep(1)  # virtual: the firmware takes 3 s
    assert lab.metrics("hwd_reconfigurations_under_way")[("waiting",)] == 1
    assert ready(lab) == dict.fromkeys(CROSSED_LINKS, 0)
    await applying
    assert ready(lab) == dict.fromkeys(CROSSED_LINKS, 1)
    assert sum(lab.metrics("hwd_reconfigurations_under_way").values()) == 0


async def test_links_that_nobody_waited_for_are_dark_and_then_unknown(lab: Lab) -> None:
    await lab.apply(STRAIGHT)
    assert ready(lab) == dict.fromkeys(STRAIGHT_LINKS, 0)
    await asyncio.sleep(15)
    assert ready(lab) == {}


async def test_after_a_way_back_the_old_links_are_there_and_the_new_ones_are_not(lab: Lab) -> None:
    await lab.apply(STRAIGHT, ready_within_s=15)
    with pytest.raises(NotReadyError):
        await lab.apply(CROSSED, ready_within_s=1)
    assert ready(lab) == dict.fromkeys(STRAIGHT_LINKS, 0)
    assert lab.metrics("hwd_reconfigurations_total")[("rolled-back",)] == 1
    await asyncio.sleep(15)
    assert ready(lab) == {}  # their carrier is back, and nobody measured a transfer


async def test_while_the_broker_is_away_no_carrier_is_known_and_then_the_present_ones_are(lab: Lab) -> None:
    await lab.apply(STRAIGHT, ready_within_s=15)
    before = lab.metrics("hwd_nic_carrier")
    assert set(before.values()) == {1}
    assert set(lab.metrics("hwd_agent_up").values()) == {1}
    lab.world.broker.stop()
    await asyncio.sleep(1)
    assert set(lab.metrics("hwd_agent_up").values()) == {0}
    assert lab.metrics("hwd_nic_carrier") == {}
    assert {*lab.service.status().links.values()} == {None}
    lab.world.broker.start()
    await asyncio.sleep(30)
    assert lab.metrics("hwd_nic_carrier") == before
    assert {*lab.service.status().links.values()} == {True}
