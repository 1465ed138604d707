import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from hwd.model.daemon import DaemonLag
from hwd.model.kinds import UnreadFact
from hwd.web.hub import REPLAY, WAITING, Hub
from hwd.web.stream import EventStream
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.devices.facts import SwitchDown

pytestmark = pytest.mark.usefixtures("virtual_time")


def document(kind: str) -> Document:
    """A document of a kind that this version does not know."""
    return Document(at_ns=1, wall_ns=2, fact=UnreadFact(kind=kind, fields={"switch": "ocs1"}))


async def read(events: AsyncGenerator[bytes, None], count: int) -> list[dict[str, str]]:
    """The next events as fields; the greeting and heartbeats are passed over."""
    found: list[dict[str, str]] = []
    while len(found) < count:
        lines = (await anext(events)).decode().strip().splitlines()
        if not lines[0].startswith(":"):
            found.append(dict(line.split(": ", 1) for line in lines))
    return found


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
def made(hub: Hub) -> EventStream:
    return EventStream(hub, boot="b")


@pytest.fixture
async def events(made: EventStream) -> AsyncIterator[AsyncGenerator[bytes, None]]:
    """From the first on."""
    following = made.follow(0)
    yield following
    await following.aclose()


async def test_an_event_carries_its_document_and_an_id(hub: Hub, events: AsyncGenerator[bytes, None]) -> None:
    hub(Document(at_ns=1, wall_ns=2, fact=SwitchDown(switch="ocs1", cause="lost")))
    hub(document("switch.painted"))
    event, other = await read(events, 2)
    assert event["id"] == "b.1"
    data = {"switch": "ocs1", "cause": "lost"}
    assert json.loads(event["data"]) == {"kind": "switch.down", "at_ns": 1, "wall_ns": 2, "data": data}
    assert json.loads(other["data"])["data"] == {"switch": "ocs1"}, "of another version, as it is"


async def test_an_id_of_an_earlier_daemon_begins_with_the_oldest() -> None:
    made = EventStream(Hub(), boot="new")
    assert made.after("old.5000") == 0
    assert made.after("new.5000") == 5000
    assert made.after(None) is None
    assert made.after("") is None


def test_what_is_no_id_is_bad_input(made: EventStream) -> None:
    for id in ("5", "b.", "b.x", "b.-1", ".5"):
        with pytest.raises(ConfigError, match=f"'{id}'.*not an id of this stream"):
            made.after(id)


async def test_kinds_can_be_chosen_by_their_beginning(hub: Hub, made: EventStream) -> None:
    events = made.follow(0, ("run.", "switch.up"))
    for kind in ("switch.up", "switch.upper", "running", "run.ended"):
        hub(document(kind))
    found = await read(events, 2)
    await events.aclose()
    assert [event["id"] for event in found] == ["b.1", "b.4"]


async def test_what_was_forgotten_is_counted(hub: Hub, made: EventStream, events: AsyncGenerator[bytes, None]) -> None:
    for _ in range(10_002):
        hub(document("switch.up"))
    [missed, first] = await read(events, 2)
    assert missed["event"] == "missed"
    assert json.loads(missed["data"]) == {"count": 2}
    assert first["id"] == "b.3"
    assert [made.snapshot(after).missed for after in (0, 1, 2, 10_002)] == [2, 1, 0, 0]


async def test_heartbeats_come_by_time_whatever_is_left_out_and_say_where_to_go_on(hub: Hub, made: EventStream) -> None:
    loop, events = asyncio.get_running_loop(), made.follow(None, ("run.",))
    began_s = loop.time()

    async def others() -> None:
        while True:
            await asyncio.sleep(1.0)
            hub(document("switch.power"))

    busy = asyncio.create_task(others())
    said = [(round(loop.time() - began_s), await anext(events)) for _ in range(4)]
    busy.cancel()
    await asyncio.wait([busy])
    await events.aclose()
    assert [at_s for at_s, _ in said] == [0, 0, 10, 20]
    assert said[0][1] == b": events of hwd\nid: b.0\n\n"
    assert said[2][1].startswith(b": still here\nid: b.")
    ids = [int(one.decode().strip().rpartition("b.")[2]) for _, one in said]
    assert ids[0] == 0
    assert all(abs(id - at_s) <= 1 for id, at_s in zip(ids, (0, 10, 20, 30), strict=True))


async def test_a_listener_from_now_on_misses_nothing_that_comes_with_its_greeting(hub: Hub, made: EventStream) -> None:
    events = made.follow(None)
    greeting = await anext(events)
    hub(document("switch.up"))
    [event] = await read(events, 1)
    await events.aclose()
    assert (greeting, event["event"], event["id"]) == (b": events of hwd\nid: b.0\n\n", "document", "b.1")


async def test_stop_ends_every_stream() -> None:
    made = EventStream(Hub(), boot="b")

    async def drain() -> int:
        return len([event async for event in made.follow(None)])

    listeners = [asyncio.create_task(drain()) for _ in range(3)]
    await asyncio.sleep(0)
    made.stop()
    assert await asyncio.gather(*listeners) == [1, 1, 1]


async def test_what_came_before_the_stop_is_still_heard(hub: Hub, made: EventStream) -> None:
    events = made.follow(0)
    for kind in ("run.ended", "daemon.stopped"):
        hub(document(kind))
    made.stop()
    assert len([event async for event in events]) == 3


# --- the memory behind it: numbers without gaps, what is kept, and listeners that are slow or gone


def numbered(number: int) -> Document:
    return Document(at_ns=number, wall_ns=number, fact=DaemonLag(seconds=number))


async def test_who_comes_back_gets_what_it_missed_and_then_goes_on_without_gap_or_double(hub: Hub) -> None:
    for number in range(1, 11):
        hub(numbered(number))
    numbers: list[int] = []

    async def take() -> None:
        following = hub.follow(4)
        async for number, one in following:
            assert one.fact == DaemonLag(seconds=number)
            numbers.append(number)
            if number in (5, 10):
                hub(numbered(hub.last + 1))  # while it is told of what it missed
            if number == 13:
                break
        await following.aclose()

    taking = asyncio.create_task(take())
    await asyncio.sleep(0.1)
    assert numbers == [*range(5, 13)]
    hub(numbered(13))
    await taking
    assert numbers == [*range(5, 14)]


async def test_who_is_too_slow_misses_some_and_is_not_waited_for(hub: Hub) -> None:
    following = hub.follow(None)
    first = asyncio.ensure_future(anext(following))
    await asyncio.sleep(0)
    hub(numbered(1))
    assert (await first)[0] == 1
    for number in range(2, WAITING + 1002):
        hub(numbered(number))
    numbers = [(await anext(following))[0] for _ in range(WAITING)]
    hub(numbered(WAITING + 1002))
    numbers.append((await anext(following))[0])
    await following.aclose()
    assert numbers == [*range(2, WAITING + 2), WAITING + 1002]  # a gap in the numbers, where it fell behind
    assert hub.last == WAITING + 1002
    assert WAITING < REPLAY, "who is told of a gap can come back for what it missed"
