"""Carriers are those of now, or unknown: never those of the moment before a host, the broker or the daemon was away."""

import asyncio
import logging
from typing import Any

import msgspec
import pytest

from hwd.bus.host_events import EventStore
from hwd.timeline.alignment import Alignment
from hwd_agents.wire import Command, Reply, State

from .world import Peer, World


def carrier(world: World) -> bool | None:
    birth = world.gateway.hosts()["h0"].birth
    assert birth is not None
    return birth.ports["eth0"].carrier


def told(world: World) -> list[bool | None]:
    """What documents said of the carrier, births in turn."""
    return [birth["ports"]["eth0"]["carrier"] for birth in world.of("host.birth")]


async def changed(world: World, peer: Peer) -> None:
    """The carrier goes, and the daemon has it for good."""
    peer.carrier, peer.carrier_changes = False, 3
    await peer.send(peer.event(carrier=False, carrier_changes=3))
    await world.agreed(peer, peer.boot, 1)


async def test_daemon_that_starts_anew_shows_the_present_carrier_and_never_the_retained_one(
    world: World, peer: Peer
) -> None:
    await changed(world, peer)
    alignment = world.gateway.hosts()["h0"].alignment
    assert isinstance(alignment, Alignment)
    await world.stop()
    world.documents.clear()
    store = EventStore(alignments={"boot-1": alignment}, positions={("h0", "boot-1"): 1})
    world.start(world.new_gateway(event_store=store))
    await world.until("host.birth", 2)
    assert told(world) == [None, False]
    assert carrier(world) is False
    assert world.of("host.event") == []


async def test_carrier_is_unknown_while_the_broker_is_away_and_the_present_one_when_it_is_back(
    world: World, peer: Peer
) -> None:
    await asyncio.sleep(1)
    assert carrier(world) is True
    heard_ns = world.clock.wall_ns()
    world.broker.stop()
    await asyncio.sleep(60)
    view = world.gateway.hosts()["h0"]
    assert (view.up, view.cause) == (False, "the broker is not connected")
    assert [down["cause"] for down in world.of("host.down")] == [view.cause]
    assert len(world.of("bus.down")) == 1
    assert carrier(world) is None
    assert abs((world.gateway.status("h0", {}, skew="").heard_wall_ns or 0) - heard_ns) < 4_000_000_000
    peer.carrier, peer.carrier_changes = False, 3
    world.broker.start()
    await world.until("host.up", 2)
    await asyncio.sleep(5)
    assert carrier(world) is False
    assert told(world)[-1] is False
    view = world.gateway.hosts()["h0"]
    assert (view.up, view.cause) == (True, "")


async def test_daemon_cut_off_alone_asks_what_changed_meanwhile(world: World, peer: Peer) -> None:
    await asyncio.sleep(1)
    world.broker.cut("daemon")
    peer.carrier, peer.carrier_changes = False, 3
    await world.until("host.up", 2)
    assert carrier(world) is None  # the birth that the broker kept is not believed
    await asyncio.sleep(60)
    assert carrier(world) is False
    assert len(peer.refreshes) == 2
    await peer.say("state", State(boot="boot-1", seq=99, state="lost"), retain=True)
    await world.until("host.up", 3)
    await asyncio.sleep(60)
    assert len(peer.refreshes) == 3, "once for each time that it comes up"


async def test_event_that_is_newer_than_the_answer_stands(world: World) -> None:
    peer = world.peer()

    def answer(command: Command) -> Reply:
        """As of before an event that comes before the answer."""
        reply = peer.obey(command)
        peer.event(carrier=False, carrier_changes=3)
        return msgspec.structs.replace(reply, data={**reply.data, "at_ns": reply.data["at_ns"] - 1000})

    peer.answers = answer
    real = peer.say

    async def event_first(leaf: str, message: Any, **more: Any) -> None:
        if isinstance(message, Reply):
            await peer.send(*peer.spools["boot-1"])
        await real(leaf, message, **more)

    peer.say = event_first  # type: ignore[method-assign]
    await world.until("host.event")
    await asyncio.sleep(2)
    assert carrier(world) is False


@pytest.mark.parametrize(
    "data", [{}, {"at_ns": 1, "ports": {"eth0": {"carrier": "perhaps"}}}], ids=["nothing", "garbage"]
)
async def test_answer_that_cannot_be_read_leaves_the_carrier_unknown_and_is_told_once(
    world: World, peer: Peer, data: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    await asyncio.sleep(1)
    peer.answers = lambda command: msgspec.structs.replace(peer.obey(command), data=data)
    world.broker.cut("daemon")
    await asyncio.sleep(60)
    assert world.gateway.hosts()["h0"].up
    assert carrier(world) is None
    assert len(peer.refreshes) > 5
    said = [record.getMessage() for record in caplog.records if "carriers are unknown" in record.getMessage()]
    assert len(said) == 1
    peer.answers = peer.obey
    await asyncio.sleep(10)
    assert carrier(world) is True


async def test_the_loss_of_an_agent_and_its_return_are_in_the_log_once_and_that_of_the_broker_is_none(
    world: World, peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hwd.bus.host_agent")

    def said() -> list[str]:
        found = [record for record in caplog.records if record.name == "hwd.bus.host_agent"]
        caplog.clear()
        return [f"{record.levelname} {record.getMessage()}" for record in found]

    await asyncio.sleep(1)
    world.broker.stop()
    await asyncio.sleep(60)
    world.broker.start()
    await world.until("host.up", 2)
    await asyncio.sleep(20)
    assert said() == []
    await peer.stop()
    world.broker.cut("h0 boot-1")
    await asyncio.sleep(30)
    peer.start()
    await world.until("host.up", 3)
    down, up = said()
    assert down.startswith("WARNING h0: agent down: ")
    assert up.startswith("INFO h0: agent up again; nothing was heard of it for 3")
    world.broker.stop()
    await asyncio.sleep(10)
    await peer.stop()
    world.broker.start()
    await asyncio.sleep(60)
    assert not world.gateway.hosts()["h0"].up
    (died,) = said()
    assert died.startswith("WARNING "), "it died while the broker was away"
    peer.start()
    await world.until("host.up", 4)
    said()
    peer.answers_clock = False
    await peer.say("state", State(boot="boot-1", seq=99, state="down"), retain=True)
    await asyncio.sleep(5)
    assert said() == ["INFO h0: agent down: it stopped in order"]


async def test_rdma_devices_are_as_they_are_now_too(world: World) -> None:
    peer = world.peer()
    peer.rdma = True
    await asyncio.sleep(2)
    assert [birth["ports"]["eth0"]["rdma"] for birth in world.of("host.birth")] == [None, True]
    peer.rdma = False
    world.broker.cut("daemon")
    await world.until("host.birth", 3)
    last = world.of("host.birth")[-1]
    assert last["ports"]["eth0"]["rdma"] is False
    assert last["inventory"]["states"]["eth0"]["rdma"] is False, "not what the birth said"
