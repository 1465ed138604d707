"""From a watcher's word to the broker: on the disk first, in order, sent again until it is acknowledged."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from hwd_agents.spool.lost_events import StoredEvent
from hwd_agents.spool.outbox import DISK_AGAIN_S, IN_FLIGHT, PATIENCE_FIRST_S, WINDOW_EVENTS, Outbox
from hwd_agents.spool.spool import Spool
from hwd_agents.wire import EVENTS_MAX, TEXT_MOST, Ack
from hwd_agents.wire.events import PutBackData
from hwd_drivers.core.disk import MemoryDisk
from hwd_drivers.core.errors import LinkError
from hwd_drivers.twins.virtual_time import VirtualClock

from ..conftest import stop
from ..wire.golden import event


class Desk:
    """An outbox of boot `b1`, and a bus that takes what it publishes while `up`, or else fails."""

    def __init__(self, clock: VirtualClock, *, earlier: int) -> None:
        self.disk = MemoryDisk()
        self.clock = clock
        before = Spool(self.disk, boot="b0", clock=self.clock, limit_bytes=1 << 20)
        for number in range(earlier):
            before.add(event(at_ns=number, data={}))
        before.close()
        self.spool = Spool(self.disk, boot="b1", clock=self.clock, limit_bytes=1 << 20)
        self.up = True
        self.failing = False
        self.taken: list[tuple[str, list[int]]] = []
        self.on_disk: list[bool] = []
        self.latency_s = 0.001
        self.taken_s = -1.0
        self.outbox = Outbox(self.spool, is_up=lambda: self.up, publish=self._publish)

    def emit(self, count: int = 1) -> None:
        for number in range(count):
            self.outbox.emit(
                "carrier", "eth0", earliest_ns=0, at_ns=number, source="link", origin="twin", data={"carrier": True}
            )

    def ack(self, upto: int, boot: str = "b1") -> bool:
        return self.outbox.ack(Ack(boot=boot, seq=1, upto=upto))

    def sequences(self, boot: str = "b1") -> list[int]:
        return [seq for name, found in self.taken if name == boot for seq in found]

    async def _publish(self, boot: str, events: list[StoredEvent]) -> None:
        self.on_disk.append(self.disk.size() > 0)
        failing = self.failing
        if not failing:
            # in the order of their calls, as a connection has it
            self.taken.append((boot, [event.seq for event in events]))
            self.taken_s = asyncio.get_running_loop().time()
        await asyncio.sleep(self.latency_s)
        if failing:
            raise LinkError("the broker went")


@pytest.fixture
def earlier() -> int:
    """How many events the boot before left."""
    return 0


@pytest.fixture
async def one(clock: VirtualClock, earlier: int) -> AsyncIterator[Desk]:
    one = Desk(clock, earlier=earlier)
    task = asyncio.create_task(one.outbox.run())
    await asyncio.sleep(0.01)
    yield one
    await stop(task)


async def test_an_event_is_on_the_disk_before_it_is_sent_and_many_at_once_go_in_few_messages(one: Desk) -> None:
    began_s = asyncio.get_running_loop().time()
    one.emit()
    await asyncio.sleep(1)
    assert one.on_disk == [True]
    assert one.taken_s == began_s
    assert one.ack(1)
    one.taken.clear()
    one.emit(1000)
    await asyncio.sleep(1)
    assert one.sequences() == list(range(2, 1002))
    assert [len(events) for _, events in one.taken] == [EVENTS_MAX] * 3 + [1000 - 3 * EVENTS_MAX]


async def test_events_that_come_while_all_messages_are_on_the_way_are_on_the_disk_at_once_and_sent_behind_them(
    one: Desk,
) -> None:
    one.latency_s = 1.0
    for number in range(1, 11):
        one.emit()
        await asyncio.sleep(0.01)
        assert one.spool.oldest_seq == 1
        assert len(one.spool.batch("b1", after=0)) == number
    assert one.sequences() == list(range(1, IN_FLIGHT + 1))
    await asyncio.sleep(1.5)
    assert one.sequences() == list(range(1, 11))


@pytest.mark.parametrize("earlier", [EVENTS_MAX + 1], ids=["earlier"])
async def test_the_events_of_an_earlier_boot_are_sent_before_those_of_this_one(one: Desk) -> None:
    one.emit(2)
    await asyncio.sleep(1)
    assert [(boot, len(events)) for boot, events in one.taken] == [("b0", EVENTS_MAX), ("b0", 1), ("b1", 2)]


@pytest.mark.parametrize("earlier", [WINDOW_EVENTS + 1], ids=["earlier"])
async def test_a_boot_whose_window_is_full_does_not_stop_another_and_goes_on_with_its_acknowledgement(
    one: Desk,
) -> None:
    one.emit(2)
    await asyncio.sleep(1)
    assert (len(one.sequences("b0")), one.sequences("b1")) == (WINDOW_EVENTS, [1, 2])
    assert one.ack(1, boot="b0")
    await asyncio.sleep(1)
    assert one.sequences("b0") == list(range(1, WINDOW_EVENTS + 2))


async def test_the_earliest_is_never_after_the_event_and_a_text_that_is_too_long_is_cut(one: Desk) -> None:
    data = PutBackData(run="r1", setting="mtu", state="x" * (TEXT_MOST + 1))
    one.outbox.emit("put-back", "eth0", earliest_ns=9, at_ns=5, source="limits", origin="twin", data=data)
    await asyncio.sleep(0.1)
    (stored,) = one.spool.batch("b1", after=0)
    assert (stored.event.earliest_ns, stored.event.at_ns) == (5, 5)
    assert len(stored.event.data["state"]) <= TEXT_MOST
    assert stored.event.data["state"].endswith(f"... ({TEXT_MOST + 1} characters)")
    assert one.sequences() == [1]


async def test_nothing_is_sent_while_the_bus_is_down_and_all_that_is_not_acknowledged_when_it_is_back(
    one: Desk,
) -> None:
    one.up = False
    one.emit(10)
    await asyncio.sleep(60)
    assert one.taken == []
    assert one.disk.size() > 0
    one.up = True
    one.outbox.go()
    await asyncio.sleep(0.1)
    assert one.sequences() == list(range(1, 11))
    assert one.ack(7)
    one.taken.clear()
    one.outbox.go()
    await asyncio.sleep(0.1)
    assert one.sequences() == [8, 9, 10]


@pytest.mark.parametrize("failing", [True, False], ids=["refused", "unacknowledged"])
async def test_what_got_no_answer_is_sent_again_ever_more_patiently(one: Desk, failing: bool) -> None:
    one.failing = failing
    one.emit(3)
    await asyncio.sleep(0.5)
    one.failing = False
    await asyncio.sleep(2 * PATIENCE_FIRST_S)
    assert one.sequences().count(1) == (1 if failing else 2)
    await asyncio.sleep(300)
    sent = one.sequences().count(1)
    assert 10 <= sent <= 15
    assert one.ack(3)
    await asyncio.sleep(300)
    assert one.sequences().count(1) == sent


async def test_what_the_disk_refused_is_put_down_when_there_is_room_also_where_nothing_happens_any_more(
    one: Desk,
) -> None:
    one.up = False
    one.disk.capacity_bytes = 0
    for _ in range(40):
        one.emit()
        await asyncio.sleep(0.01)
    await asyncio.sleep(60)
    assert "cannot write" in one.spool.trouble
    one.disk.capacity_bytes = None
    await asyncio.sleep(1.1 * DISK_AGAIN_S)
    assert one.spool.trouble == ""
    next_life = Spool(one.disk, boot="b2", clock=one.clock, limit_bytes=1 << 20)
    assert len(next_life.batch("b1", after=0)) == 40


async def test_what_is_asked_for_again_is_sent_as_far_as_it_is_here_and_what_was_never_made_is_not_acknowledged(
    one: Desk,
) -> None:
    one.emit(600)
    await asyncio.sleep(0.1)
    assert not one.ack(601)
    assert one.spool.oldest_seq == 1
    assert one.ack(99, boot="b0")  # of a boot that is not here any more: no harm
    assert one.ack(10)
    assert one.spool.oldest_seq == 11
    one.taken.clear()
    assert one.outbox.resend("b1", 5, 500) == 490
    assert one.outbox.resend("b9", 1, 5) == 0
    assert one.outbox.resend("b1", 601, 700) == one.outbox.resend("b1", 1 << 70, 1 << 80) == 0
    await asyncio.sleep(0.1)
    assert one.sequences() == list(range(11, 501))
