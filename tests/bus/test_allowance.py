"""What one host may make the daemon write is bounded, whatever it sends; and an agent that behaves is not held up."""

import asyncio
from collections import Counter

import pytest

from hwd.bus import allowance as allowance_module
from hwd.bus import host_events
from hwd.bus.allowance import (
    BIRTH_MOST_BYTES,
    BIRTHS_MOST,
    BIRTHS_PER_S,
    BOOTS_MOST,
    BOOTS_PER_S,
    EVENTS_MOST,
    EVENTS_PER_S,
    STATES_MOST,
    STATES_PER_S,
    UNKNOWN_BOOTS_MOST,
    UNKNOWN_BOOTS_PER_S,
    Allowance,
)
from hwd.bus.rejected_messages import OTHERS, STRANGERS_MOST, TEXT_MOST, RejectedMessages
from hwd.model.host import HostGarbage
from hwd.model.limit import Limit
from hwd_agents.wire import Inventory, SpoolNote, State, encode, topic
from hwd_drivers.core.documents import Fact
from hwd_drivers.core.structs import to_json

from .world import LAB, Peer, World

FLOOD_S = 60.0


def written(world: World) -> int:
    """Bytes that the records get."""
    return sum(len(to_json(document.fact)) for document in world.documents)


def filler(kilobytes: int) -> dict[str, dict[str, bool | None]]:
    return {f"{number:0250}": {"carrier": None} for number in range(kilobytes * 4)}


async def test_birth_messages_of_ever_new_boots_are_recorded_at_a_limited_rate_and_the_newest_boot_stays(
    world: World,
) -> None:
    peer, other = await world.aligned_peer(), await world.aligned_peer("h1")
    peer.inventory = Inventory(kernel="6.1", states=filler(50))
    for number in range(round(FLOOD_S * 5)):
        peer.boot = f"made-up-{number}"
        peer.spools[peer.boot] = []
        await peer.be_born()
        await asyncio.sleep(0.2)
    boots = {birth["boot"] for birth in world.of("host.birth", host="h0")}
    assert len(boots) <= BOOTS_MOST + BOOTS_PER_S * FLOOD_S + 2
    assert written(world) < (BOOTS_MOST + BOOTS_PER_S * FLOOD_S + 2) * 60_000
    await world.until("host.birth", host="h0", boot=peer.boot)
    assert world.gateway.hosts()["h0"].boot == peer.boot
    await other.send(other.event())
    await world.until("host.event", host="h1")
    assert world.reached[Limit.AGENT_BIRTH] > 200


async def test_changing_birth_messages_of_one_boot_are_recorded_at_a_limited_rate_the_newest_last(
    world: World, peer: Peer
) -> None:
    for number in range(round(FLOOD_S * 5)):
        peer.inventory = Inventory(kernel=f"6.{number}", states=filler(50))
        await peer.be_born()
        await asyncio.sleep(0.2)
    assert written(world) < BIRTHS_MOST + BIRTHS_PER_S * FLOOD_S + 100_000
    birth = world.gateway.hosts()["h0"].birth
    assert birth is not None
    assert birth.inventory.kernel == peer.inventory.kernel, "what is told late is known at once"
    await asyncio.sleep(10)
    assert world.of("host.birth")[-1]["inventory"]["kernel"] == peer.inventory.kernel
    assert world.reached[Limit.AGENT_BIRTH] > 200


async def test_birth_that_is_too_large_is_garbage_and_counted(world: World, peer: Peer) -> None:
    peer.inventory = Inventory(states=filler(50), spool=SpoolNote(why="x" * BIRTH_MOST_BYTES))
    await peer.be_born()
    (told,) = await world.until("host.garbage")
    assert f"over the limit of {BIRTH_MOST_BYTES} bytes" in told["why"]
    assert len(world.of("host.birth")) == 1
    assert world.reached == {Limit.AGENT_BIRTH: 1}


async def test_host_that_goes_down_and_comes_up_all_the_time_is_listened_to_as_often_as_is_allowed(
    world: World, peer: Peer
) -> None:
    before = len(world.documents)
    for number in range(round(FLOOD_S * 100)):
        state = State(boot="boot-1", seq=number, state="up" if number % 2 else "lost")
        await peer.say("state", state)
        await asyncio.sleep(0.01)
    most = STATES_MOST + STATES_PER_S * FLOOD_S + 2
    assert len(world.of("host.down")) <= most
    assert len(world.documents) - before < 5 * most
    assert world.reached[Limit.AGENT_STATE] > 2000


async def test_events_beyond_the_allowance_are_refused(virtual_time: None) -> None:
    reached: Counter[Limit] = Counter()
    allowance = Allowance("h0", lambda limit, detail: reached.update([limit]))
    taken = 0
    for _ in range(round(FLOOD_S * 10)):
        while allowance.events(1 << 20):
            taken += 1 << 20
        await asyncio.sleep(0.1)
    assert EVENTS_MOST <= taken <= EVENTS_MOST + EVENTS_PER_S * FLOOD_S
    assert reached == {Limit.AGENT_EVENTS: FLOOD_S * 10}


async def test_events_that_were_too_much_and_are_overtaken_by_others_are_not_lost(
    virtual_time: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was refused leaves a gap before what was small enough, and is refused again when it is sent again."""
    monkeypatch.setattr(allowance_module, "EVENTS_MOST", 2500)
    monkeypatch.setattr(allowance_module, "EVENTS_PER_S", 100)
    async with World() as world:
        peer = await world.aligned_peer()
        await peer.send(peer.event())
        await peer.send(peer.event("novel", why="x" * 2150))
        await peer.send(peer.event())
        await world.until("host.event", 3)
        assert sorted(event["seq"] for event in world.of("host.event")) == [1, 2, 3]
        assert world.of("host.lost") == []
        assert world.reached[Limit.AGENT_EVENTS] > 0


async def test_events_of_ever_new_boots_are_taken_of_as_many_as_is_allowed_and_of_the_others_when_they_come_again(
    world: World,
) -> None:
    """Each leaves a mark for good: of how far its events were taken."""
    peer = world.peer()
    peer.clock_name = "the clock of its machine"
    await world.until("clock.aligned")
    boots = [f"made-up-{number}" for number in range(1200)]
    started_s = asyncio.get_running_loop().time()
    for boot in boots:
        await peer.send(peer.event(boot=boot), boot=boot, clock=peer.clock_name)
        await asyncio.sleep(0.05)
    await peer.send(peer.event())
    await world.until("host.event", boot=peer.boot)
    took_s = asyncio.get_running_loop().time() - started_s
    taken = {event["boot"] for event in world.of("host.event")}
    assert UNKNOWN_BOOTS_MOST <= len(taken) <= UNKNOWN_BOOTS_MOST + UNKNOWN_BOOTS_PER_S * took_s + 2
    assert world.reached[Limit.AGENT_EVENTS] > 800
    await asyncio.sleep(10)
    refused = boots[-1]
    assert refused not in taken
    assert (refused, 1) not in peer.acks
    await peer.send(*peer.spools[refused], boot=refused, clock=peer.clock_name)
    await world.until("host.event", boot=refused)
    await world.agreed(peer, refused, 1)
    assert world.of("host.lost") == []


async def test_of_past_boots_the_newest_alone_are_known(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_events, "PAST_BOOTS_MOST", 3)
    peer = world.peer()
    peer.clock_name = "the clock of its machine"
    await world.until("clock.aligned")
    boots = [f"old-{number}" for number in range(5)]
    events = {boot: peer.event(boot=boot) for boot in boots}
    for boot in boots:
        await peer.send(events[boot], boot=boot, clock=peer.clock_name)
        await world.until("host.event", boot=boot)
        await asyncio.sleep(3)  # it is forgotten, but for how far it came
    for boot in reversed(boots):
        await peer.send(events[boot], boot=boot, clock=peer.clock_name)
    await asyncio.sleep(1)
    again = Counter(event["boot"] for event in world.of("host.event"))
    assert again == {boot: 2 if boot in boots[:2] else 1 for boot in boots}


async def test_messages_of_hosts_that_there_are_not_write_little_however_many_names_there_are(world: World) -> None:
    stranger: Peer = await world.aligned_peer()
    before = len(world.documents)
    for number in range(5000):
        await stranger.bus.publish(topic(LAB, f"made-up-{number}", "birth"), b"{}", qos=0)
    await stranger.bus.publish(topic(LAB, "h0", "birth"), encode(State(boot="b", seq=1, state="up")), qos=1)
    await asyncio.sleep(20)
    told = world.of("host.garbage")
    assert len({one["host"] for one in told}) <= STRANGERS_MOST + 2
    assert len(world.documents) - before < 3 * STRANGERS_MOST + 20
    assert sum(one["count"] for one in told) == 5001


S = 1_000_000_000


def test_first_is_told_at_once_and_a_flood_once_a_second() -> None:
    told: list[Fact] = []
    garbage = RejectedMessages(told.append, ("h0",))
    for number in range(1000):
        garbage.note("h0", "t", f"why {number}", 5 * S + number)
    assert told == [HostGarbage(host="h0", topic="t", why="why 0", count=1)]
    garbage.flush(5 * S + 2000)
    assert len(told) == 1
    garbage.flush(6 * S)
    garbage.flush(9 * S)
    assert told[1:] == [HostGarbage(host="h0", topic="t", why="why 999", count=999)]


def test_made_up_names_count_together_and_long_texts_are_cut() -> None:
    told: list[Fact] = []
    garbage = RejectedMessages(told.append, ("h0",))
    for number in range(2 * STRANGERS_MOST):
        garbage.note(f"made-up-{number}", "t" * 9999, "why" * 9999, 5 * S)
    garbage.flush(7 * S)
    reports = [document for document in told if isinstance(document, HostGarbage)]
    assert len(reports) == len(told) == STRANGERS_MOST + 2
    assert sum(report.count for report in reports) == 2 * STRANGERS_MOST
    assert reports[-1].host == OTHERS
    assert max(len(text) for one in reports for text in (one.host, one.topic, one.why)) < TEXT_MOST + 50
