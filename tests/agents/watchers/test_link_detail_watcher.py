"""Why a link is down, asked after a change of the carrier: reported once per difference, again when it changes."""

import asyncio

import msgspec
import pytest

from hwd_agents.process.config import PortConfig
from hwd_agents.sources.kernel.nic_link_details import KernelLinkDetails
from hwd_agents.watchers.link_detail_watcher import AGAIN_S, SLOW_S, LinkDetailWatcher
from hwd_drivers.core.offload import InlineOffload

from ..conftest import Ear, Stage
from ..sources.kernel.test_nic_link_details import AUTONEG, LINKSTATE, NO_CABLE, NO_PARTNER, link_state
from ..sources.played_ethtool import PlayedEthtool

ETH0 = ("eth0", LINKSTATE)


class Watched:
    def __init__(self, one: Stage, ethtool: PlayedEthtool) -> None:
        self.ear = Ear()
        self.changes = 0
        source = KernelLinkDetails(ethtool, InlineOffload())
        self.details = {
            name: LinkDetailWatcher(
                name, PortConfig(interface=name), source, one.clock, self.ear, origin="measured", on_change=self._change
            )
            for name in ("eth0", "eth1")
        }
        for watcher in self.details.values():
            one.run(watcher)

    def _change(self) -> None:
        self.changes += 1


@pytest.fixture
async def seen(one: Stage, ethtool: PlayedEthtool) -> Watched:
    """Up, for a while."""
    ethtool.answers[ETH0] = link_state(up=True)
    seen = Watched(one, ethtool)
    await asyncio.sleep(5)
    return seen


async def test_the_first_state_of_a_link_is_no_event_and_a_change_has_its_cause(
    one: Stage, ethtool: PlayedEthtool, seen: Watched
) -> None:
    assert seen.ear.told == []
    ethtool.answers[ETH0] = link_state(up=False, why=NO_CABLE)
    asked_ns = one.now_ns()
    seen.details["eth0"].changed()
    await asyncio.sleep(0.01)
    (told,) = seen.ear.told
    assert (told.kind, told.port, told.source, told.origin) == ("link-state", "eth0", "ethtool", "measured")
    assert (told.data["up"], told.data["why_down"]) == (False, "no cable")
    assert asked_ns <= told.earliest_ns <= told.at_ns
    assert msgspec.to_builtins(seen.details["eth0"].details) == told.data


async def test_a_firmware_that_knows_more_a_second_later_is_asked_again(ethtool: PlayedEthtool, seen: Watched) -> None:
    ethtool.answers[ETH0] = link_state(up=False)
    seen.details["eth0"].changed()
    await asyncio.sleep(0.5)
    ethtool.answers[ETH0] = link_state(up=False, why=AUTONEG, detail=NO_PARTNER)
    await asyncio.sleep(AGAIN_S)
    assert [told.data["detail"] for told in seen.ear.told] == [None, "no partner detected"]
    ethtool.answers[ETH0] = link_state(up=True, downs=1)  # without a word of the kernel
    await asyncio.sleep(SLOW_S + 1)
    assert seen.ear.told[-1].data["downs"] == 1
    await asyncio.sleep(3 * SLOW_S)
    assert len(seen.ear.told) == 3


async def test_a_port_whose_driver_tells_nothing_is_said_so_and_the_other_goes_on(seen: Watched) -> None:
    assert seen.details["eth0"].why_not == ""
    assert seen.details["eth1"].why_not == ("eth1: cannot read the state of the link: the NIC says not supported")
    assert seen.details["eth1"].details is None
    assert seen.changes == 2


async def test_a_port_that_flaps_is_not_asked_for_each_flap(ethtool: PlayedEthtool, seen: Watched) -> None:
    for flap in range(200):
        ethtool.answers[ETH0] = link_state(up=flap % 2 == 0, downs=flap)
        seen.details["eth0"].changed()
        await asyncio.sleep(0.005)
    await asyncio.sleep(5)
    assert 5 <= len(seen.ear.told) <= 15
    assert seen.ear.told[-1].data["downs"] == 199
