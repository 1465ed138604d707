"""What fails in the work for one host marks that host, and nothing else ends by it."""

import asyncio
import logging
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from hwd.bus.containment import WELL_AFTER_S, Containment
from hwd_agents.wire import ClockNote, ClockUdp, encode, topic
from hwd_drivers.core.documents import Document
from hwd_drivers.core.structs import to_json

from .world import LAB, Peer, World


async def test_a_mark_is_told_once_and_taken_off_when_nothing_failed_for_a_while(
    virtual_time: None, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[tuple[str, str, str]] = []
    containment = Containment(lambda *each: told.append(each))
    for number in range(50):
        with containment.of("h0", "its events"):
            if number % 2:
                raise KeyError("carrier")
        containment.heal()
    assert containment.why("h0") == "its events: KeyError: 'carrier'"
    assert containment.why("h1") == ""
    await asyncio.sleep(WELL_AFTER_S)
    containment.heal()
    assert containment.why("h0") == ""
    assert told == [("h0", "its events", "its events: KeyError: 'carrier'"), ("h0", "its events", "")]
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1


async def test_what_has_to_run_all_the_time_is_begun_anew_until_it_is_cancelled(virtual_time: None) -> None:
    begun: list[float] = []

    async def fail() -> None:
        begun.append(asyncio.get_running_loop().time())
        raise RuntimeError("no")

    containment = Containment(lambda *each: None)
    task = asyncio.create_task(containment.keep("h0", "clock", fail))
    await asyncio.sleep(400)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    pauses = [round(later - before) for before, later in pairwise(begun)]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60]


async def go_on(world: World, other: Peer) -> None:
    assert not world.ended
    await other.send(other.event())
    await world.until("host.event", host="h1")
    status = world.gateway.status("h1", {}, skew="")
    assert (status.up, status.trouble) == (True, "")


@pytest.mark.parametrize(
    "udp",
    [{"address": "no-such-host.example", "port": 7, "key": "k"}, {"address": "fe80::1%nowhere", "port": 9, "key": "k"}],
)
@pytest.mark.parametrize("world", [{"clocks_by_udp": True}], indirect=True)
async def test_clock_address_or_key_that_cannot_be_used_ends_nothing(world: World, udp: dict[str, Any]) -> None:
    other = await world.aligned_peer("h1")
    peer = await world.aligned_peer()
    view = world.gateway.hosts()["h0"].birth
    assert view is not None
    good = ClockNote(udp=ClockUdp(address="127.0.0.1", port=9, key="k"), why_not_udp="", wall=None)
    data = msgspec.json.decode(encode(msgspec.structs.replace(view, clocks=good)))
    data["clocks"]["udp"] = udp
    await peer.bus.publish(topic(LAB, "h0", "birth"), to_json(data), qos=1)
    await asyncio.sleep(30)
    await go_on(world, other)
    await peer.send(peer.event())
    await world.until("host.event", host="h0")


async def test_event_on_which_the_daemon_fails_is_said_to_be_lost_and_those_around_it_are_not(world: World) -> None:
    def fail(document: Document) -> None:
        if document.kind == "host.event" and document.fact.to_data()["seq"] == 2:
            raise KeyError("a bug")

    peer = await world.aligned_peer()
    world.sinks.append(fail)
    await peer.send(peer.event(seq=1), peer.event(seq=2), peer.event(seq=3))
    await world.until("host.event", seq=3)
    await world.agreed(peer, "boot-1", 3)
    (lost,) = world.of("host.lost")
    assert (lost["count"], lost["why"]) == (1, "the daemon failed on event 2; its log says why")
