"""What is said of a link that does not come up: one planted cause each, in the status and by an apply that waits."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from hwd.cli.commands.status import hang_lines
from hwd.daemon.installed_drivers import load
from hwd.model.bodies import OverrideBody, ReconfigurationBody
from hwd.model.fault import parse_fault
from hwd.model.hang import Hang
from hwd.model.host import HostDown
from hwd.model.reconfiguration import ReconfigurationEnded
from hwd.model.testbed import Strand, Testbed
from hwd.reconfigure.apply import ready_wait
from hwd.sim.world import World, agent_node
from hwd_drivers.core.errors import NotReadyError
from hwd_drivers.core.structs import from_plain
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.twins.virtual_time import VirtualLoop

from ..virtual_time import SELDOM_S
from .conftest import CROSSED, EXAMPLE, STRAIGHT

TESTBED = load(EXAMPLE).require()
Fault = dict[str, Any]


@pytest.fixture
async def settled(virtual_loop: VirtualLoop, patched: Testbed | None) -> AsyncIterator[World]:
    """A world that is `patched` otherwise than its file says, where a test says how."""
    async with World(TESTBED, EXAMPLE.read_text(), seed=7, patched=patched, light_every_s=SELDOM_S) as world:
        await world.settled()
        yield world


@pytest.fixture
def patched() -> Testbed | None:
    return None


@pytest.fixture
async def world(settled: World) -> World:
    """Its links are ready as they stand straight."""
    service = await settled.settled()
    await service.light.apply(from_plain({"what": STRAIGHT, "ready_within_s": 30}, ReconfigurationBody))
    assert await status_lines(settled) == []
    return settled


async def not_ready(world: World, what: str, *, within_s: float = 15) -> tuple[str, Sequence[Hang]]:
    """What an apply says, and what its document has."""
    assert world.daemon is not None
    with pytest.raises(NotReadyError) as raised:
        await world.daemon.service.light.apply(
            from_plain({"what": what, "ready_within_s": within_s}, ReconfigurationBody)
        )
    (end,) = [one.fact for one in world.documents if isinstance(one.fact, ReconfigurationEnded) and one.fact.why]
    assert isinstance(end.hangs, list)
    return str(raised.value), end.hangs


async def status_lines(world: World) -> list[str]:
    assert world.daemon is not None
    now = await world.daemon.service.rack.status()
    return hang_lines(now.lit, (), now.wall_ns)


H0_HAS_LIGHT = "h0.eth0 has light, and the remote fault keeps it down"
H0_SENDS, H1_SENDS = "h0.eth0.tx 1.6 to 3.4 dBm a lane", "h1.eth0.tx 1.8 to 3.4 dBm a lane"
TOO_WEAK = (
    "at h1.eth0, firmware: the light at ocs1.3B leaves about -10.8 dBm a lane for h1.eth0.rx; the receiver needs "
    "-10.6 dBm; 13.5 dB are lost between h0.eth0.tx and ocs1.3B, at most 2.7 dB are stated; "
    f"{H0_HAS_LIGHT} ({H0_SENDS}, ocs1.3B -4.7 dBm)"
)
BOTH_LOST = (
    "at h0.eth0, optical: light is lost between ocs1.1B and h0.eth0.rx; light is lost between h0.eth0.tx and ocs1.3B. "
    f"Are its two fibres in, and not swapped? ({H1_SENDS}, ocs1.1B 7.2 dBm, h0.eth0.rx dark, "
    f"{H0_SENDS}, ocs1.3B dark, h1.eth0.rx dark)"
)
LOST_BEFORE_3B = (
    f"at h1.eth0, optical: light is lost between h0.eth0.tx and ocs1.3B; {H0_HAS_LIGHT} "
    f"({H0_SENDS}, ocs1.3B dark, h1.eth0.rx dark)"
)
STATUS: dict[str, tuple[Fault, str]] = {
    "module out": (
        {"port": "h0.eth0", "fault": "unplug"},
        "at h0.eth0, optical: its module cannot be read: there is no module in it (ocs1.3B dark, h1.eth0.rx dark)",
    ),
    "fibre of the transmitter cut": ({"port": "h0.eth0", "fault": "cut", "strand": "tx"}, LOST_BEFORE_3B),
    "fibre of the receiver cut": (
        {"port": "h0.eth0", "fault": "cut", "strand": "rx"},
        "at h0.eth0, optical: light is lost between ocs1.1B and h0.eth0.rx; h1.eth0 has light, and the remote fault "
        f"keeps it down ({H1_SENDS}, ocs1.1B 7.2 dBm, h0.eth0.rx dark)",
    ),
    "both fibres cut": ({"port": "h0.eth0", "fault": "cut"}, BOTH_LOST),
    "PHY stuck": (
        {"port": "h0.eth0", "fault": "stuck-phy"},
        "at both ends, firmware: the PHY is up at neither end; light is there "
        "(h0.eth0.rx 0.6 to 2.1 dBm a lane, h1.eth0.rx 0.1 to 1.9 dBm a lane)",
    ),
    "laser weak, no light": (
        {"port": "h0.eth0", "fault": "weak", "loss_db": 16},
        "at h1.eth0, optical: the light at h1.eth0.rx is below loss of signal (-13 dBm); 17.5 dB are lost between "
        f"h0.eth0.tx and ocs1.3B, at most 2.7 dB are stated; {H0_HAS_LIGHT} "
        f"({H0_SENDS}, ocs1.3B -8.7 dBm, h1.eth0.rx -15.9 to -14.1 dBm a lane)",
    ),
    "laser weak, light and no link": ({"port": "h0.eth0", "fault": "weak", "loss_db": 12}, TOO_WEAK),
    "switch loses too much": ({"switch": "ocs1", "fault": "drift", "ends": ["1A"], "loss_db": 12}, TOO_WEAK),
    "mirror gone": ({"switch": "ocs1", "fault": "fail", "ends": ["1A"]}, LOST_BEFORE_3B),
}


@pytest.mark.parametrize(("fault", "said"), STATUS.values(), ids=STATUS)
async def test_status_says_where_a_link_hangs(world: World, fault: Fault, said: str) -> None:
    world.faults.set(parse_fault(fault))
    await asyncio.sleep(12)
    assert await status_lines(world) == [f"h0.eth0<->h1.eth0 hangs {said}"]


async def test_status_names_the_override_that_holds_a_link_dark(world: World) -> None:
    assert world.daemon is not None
    await world.daemon.service.overrides.override(
        OverrideBody(switch="ocs1", ends=["1A"], to="force-blocked", by="ada")
    )
    await asyncio.sleep(12)
    assert await status_lines(world) == [
        f"h0.eth0<->h1.eth0 hangs at h1.eth0, optical: ocs1 holds 1A dark by an override; {H0_HAS_LIGHT} "
        f"({H0_SENDS}, ocs1.3B dark, h1.eth0.rx dark)"
    ]


async def test_nothing_is_said_while_no_agent_reports(world: World) -> None:
    world.faults.set(parse_fault({"port": "h0.eth0", "fault": "stuck-phy"}))
    await asyncio.sleep(1)
    assert len(await status_lines(world)) == 1
    for host in ("h0", "h1"):
        world.kill(agent_node(host))
    await asyncio.sleep(30)
    assert {one.fact.host for one in world.documents if isinstance(one.fact, HostDown)} == {"h0", "h1"}
    assert await status_lines(world) == []


APPLY: dict[str, tuple[Fault, str]] = {
    "slow firmware": (
        {"port": "h0.eth0", "fault": "slow-firmware", "seconds": 100},
        "at h0.eth0, firmware: the PHY is down; light is there (h0.eth0.rx 0.1 to 1.0 dBm a lane)",
    ),
    "module out": (
        {"port": "h0.eth0", "fault": "unplug"},
        "at h0.eth0, optical: its module cannot be read: there is no module in it (ocs1.4B dark, h1.eth1.rx dark)",
    ),
    "loss too high": (
        {"port": "h0.eth0", "fault": "weak", "loss_db": 16},
        "at h1.eth1, optical: the light at ocs1.4B leaves about -14.7 dBm a lane for h1.eth1.rx, below loss of signal "
        "(-13 dBm); 17.5 dB are lost between h0.eth0.tx and ocs1.4B, at most 2.7 dB are stated; "
        f"{H0_HAS_LIGHT} ({H0_SENDS}, ocs1.4B -8.7 dBm, h1.eth1.rx dark)",
    ),
}


@pytest.mark.parametrize(("fault", "said"), APPLY.values(), ids=APPLY)
async def test_apply_says_where_its_links_hang(world: World, fault: Fault, said: str) -> None:
    world.faults.set(parse_fault(fault))
    why, hangs = await not_ready(world, CROSSED)
    assert f"not ready within 15 s: h0.eth0<->h1.eth1 ({hangs[0].words}). " in why
    assert [str(hang) for hang in hangs] == [f"h0.eth0<->h1.eth1 hangs {said}"]


@pytest.mark.parametrize(
    ("within_s", "place", "power"), [(0.5, "h1.eth1.rx", ""), (6, "ocs1.4B", "ocs1.4B dark, ")], ids=["before", "after"]
)
async def test_powers_that_were_read_before_the_link_was_made_are_left_out(
    world: World, within_s: float, place: str, power: str
) -> None:
    """Before the switch moved, 3B was lit and 4B carried another light; it is asked every 5 s."""
    world.faults.set(parse_fault({"port": "h0.eth0", "fault": "cut", "strand": "tx"}))
    _, hangs = await not_ready(world, CROSSED, within_s=within_s)
    (hang,) = [one for one in hangs if one.link == "h0.eth0<->h1.eth1"]
    assert hang.words == (
        f"hangs at h1.eth1, optical: light is lost between h0.eth0.tx and {place}; {H0_HAS_LIGHT} "
        f"({H0_SENDS}, {power}h1.eth1.rx dark)"
    )


async def test_links_beyond_the_first_few_are_a_number_and_stand_in_the_document(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ready_wait, "NAMED", 1)
    for port in ("h0.eth0", "h0.eth1"):
        world.faults.set(parse_fault({"port": port, "fault": "unplug"}))
    why, hangs = await not_ready(world, CROSSED)
    assert f"not ready within 15 s: {hangs[0].link} ({hangs[0].words}) and 1 more link. " in why
    assert [one.end for one in hangs] == ["h0.eth0", "h0.eth1"]


async def test_crossconnect_that_somebody_took_while_links_were_waited_for_is_the_reason(world: World) -> None:
    faults = world.rack.switches["ocs1"].faults
    asyncio.get_running_loop().call_later(1, faults.panel, (Crossconnect.parse("1A-4B"),), ())
    _, hangs = await not_ready(world, CROSSED)
    assert [str(hang) for hang in hangs] == [
        f"h0.eth0<->h1.eth1 hangs at h1.eth1, optical: ocs1 does not have 1A-4B; {H0_HAS_LIGHT} "
        f"({H0_SENDS}, ocs1.4B dark, h1.eth1.rx dark)"
    ]


def repatched(repatch: Callable[[str], str]) -> Testbed:
    """The testbed with the NIC ends of its strands put elsewhere, by their names."""
    ends = {str(end): end for strand in TESTBED.strands for end in strand.ends}

    def moved(strand: Strand) -> Strand:
        one, other = (ends[repatch(str(end))] for end in strand.ends)
        return replace(strand, ends=(one, other))

    return replace(TESTBED, strands=tuple(map(moved, TESTBED.strands)))


def duplex_swapped(end: str) -> str:
    return {"h0.eth0.tx": "h0.eth0.rx", "h0.eth0.rx": "h0.eth0.tx"}.get(end, end)


def ports_swapped(end: str) -> str:
    return end.replace("h1.eth0", "h1.-").replace("h1.eth1", "h1.eth0").replace("h1.-", "h1.eth1")


PATCHED: dict[str, tuple[Testbed, list[str]]] = {
    "the two fibres of a port swapped": (repatched(duplex_swapped), [f"h0.eth0<->h1.eth0 hangs {BOTH_LOST}"]),
    "the fibres of two ports swapped": (
        repatched(ports_swapped),
        [
            f"{link} hangs at both ends, ready: carrier is there at both ends, and no transfer succeeded"
            for link in ("h0.eth0<->h1.eth0", "h0.eth1<->h1.eth1")
        ],
    ),
}


@pytest.mark.parametrize(("patched", "said"), PATCHED.values(), ids=PATCHED)
async def test_apply_finds_what_is_patched_otherwise_than_the_file_says(settled: World, said: list[str]) -> None:
    _, hangs = await not_ready(settled, STRAIGHT)
    assert [str(hang) for hang in hangs] == said
