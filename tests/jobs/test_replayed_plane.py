"""A plane whose events are recorded, and that is told them again."""

import errno
from collections.abc import AsyncIterator, Iterable, Iterator

import pytest
from msgspec.structs import replace

from hwd.jobs.event_log import EventLog
from hwd.jobs.replayed_plane import PlaneInput, ReplayedPlane, ReplayState
from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.plane import (
    Action,
    Applied,
    CommunicationGroup,
    Demand,
    Done,
    Event,
    Grant,
    Intent,
    Job,
    Plane,
    PortView,
    Prepare,
    Rank,
    Route,
    Switch,
    Target,
    Tick,
    View,
)
from hwd.planes import AnnouncedDemand
from hwd.planes.actor import AnswerRanks, DriveTo, PlaneActor
from hwd.planes.breach import Breach, PlaneError
from hwd.planes.runner import InlinePlane
from hwd.planes.static import Static
from hwd.records.records import Records
from hwd_agents.wire import Operation, OperationKind
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.disk import MemoryDisk
from hwd_drivers.core.errors import FailedError
from hwd_drivers.core.offload import InlineOffload

JOB = Job(
    id="k3v9a1xx",
    ranks=(Rank(number=0, host="h0"), Rank(number=1, host="h0")),
    groups={"world": CommunicationGroup(name="world", ranks=(0, 1))},
)


@pytest.fixture
async def records() -> AsyncIterator[Records]:
    records = Records("sqlite://", InlineOffload())
    await records.open()
    yield records
    records.close()


@pytest.fixture
def event_log(records: Records) -> EventLog:
    return EventLog(MemoryDisk(), records.jobs)


EMPTY = View(ports={}, topology=lambda text: ())


async def played(
    plane: Plane,
    event_log: EventLog,
    job: Job = JOB,
    view: View = EMPTY,
    *,
    demand: AnnouncedDemand | None = None,
) -> ReplayedPlane:
    runner = InlinePlane(lambda: plane)
    actor = PlaneActor(await runner.begin(job, view), job, view)
    return ReplayedPlane(runner, actor, job.id, log=event_log, clock=SystemClock(), demand=demand)


def operation(index: int = 0) -> Operation:
    return Operation(group="world", kind=OperationKind.ALL_REDUCE, index=index)


def intents(index: int = 0) -> list[PlaneInput]:
    return [PlaneInput(event=Intent(rank=rank, operation=operation(index))) for rank in (0, 1)]


class Routes:
    """Sets routes before it lets rank 1 go."""

    def targets(self, job: Job, view: View) -> dict[str, Target]:
        return {}

    def on(self, event: Event) -> Iterator[Action]:
        if isinstance(event, Intent):
            if event.rank == 1:
                yield Route(routes=())
            yield Grant(ranks=(event.rank,))


async def test_it_is_known_who_was_let_go_behind_a_route(event_log: EventLog) -> None:
    await (await played(Routes(), event_log)).tell(*intents(), at_s=1.0)
    again = await (await played(Routes(), event_log)).replay()
    assert again == ReplayState(
        sending={0: operation(), 1: operation()}, over={0: (), 1: ()}, behind={0: 0, 1: 1}, routed=1, events=2
    )


async def test_second_plane_is_where_the_first_one_was(event_log: EventLog) -> None:
    first = await played(Static("ring"), event_log)
    assert await first.tell(at_s=0.5) == []
    assert await first.tell(*intents(), at_s=1.0) == [DriveTo(target="static")]
    await first.tell(PlaneInput(event=Applied(target="static"), reconfiguration="a1b2c3d4"), at_s=2.0)
    await first.tell(PlaneInput(event=Done(rank=0)), at_s=3.0)
    await first.tell(*intents(1)[:1], at_s=4.0)
    second = await played(Static("ring"), event_log)
    assert await second.replay() == ReplayState(sending={1: operation()}, over={1: ()}, behind={1: 0}, events=5)
    assert ([*second.actor.at], second.actor.waiting, second.actor.sending) == (["static"], {0: operation(1)}, {1})
    assert second.at_s == 3.0, "the tick after the last event led to nothing, and is not recorded"
    await second.tell(*intents(1)[1:], at_s=1.0)
    events = await event_log.events(JOB.id)
    assert [type(one.plane_event) for one in events] == [Intent, Intent, Applied, Done, Intent, Intent]
    assert [one.ticked_s for one in events] == [0.5, None, 1.0, 2.0, 3.0, None]
    assert events[2].reconfiguration == "a1b2c3d4"
    assert second.at_s == 3.0, "its time does not go back"


async def test_it_is_known_over_which_links_a_rank_was_let_go(event_log: EventLog) -> None:
    ends = [NicPortId(host=f"h{n}", port="eth0") for n in range(2)]
    link = Link.of(*ends)
    view = View(ports=dict.fromkeys(ends, PortView()), topology=lambda text: (link,))
    job = Job(id=JOB.id, ranks=(Rank(number=0, host="h0"), Rank(number=1, host="h1")), groups=JOB.groups)

    first = await played(Static("ring"), event_log, job, view)
    await first.tell(*intents(), at_s=1.0)
    await first.tell(PlaneInput(event=Applied(target="static"), reconfiguration="a1b2c3d4"), at_s=2.0)
    await first.tell(PlaneInput(event=Done(rank=0)), at_s=3.0)
    again = await played(Static("ring"), event_log, job, view)
    assert (await again.replay()).over == {1: (link,)}


class Counting:
    """Grants by how often it was told something."""

    def __init__(self, counted: type[Event]) -> None:
        self._counted = counted
        self._count = 0

    def targets(self, job: Job, view: View) -> dict[str, Target]:
        return {}

    def on(self, event: Event) -> Iterator[Action]:
        self._count += isinstance(event, self._counted)
        if isinstance(event, Intent) and self._count >= 2:
            yield Grant(ranks=(event.rank,))


@pytest.mark.parametrize(
    ("counted", "by_then"), [(Tick, Tick), (Done, Intent)], ids=["counts ticks", "is another version"]
)
async def test_plane_that_answers_otherwise_than_before_is_found_out(
    event_log: EventLog, counted: type[Event], by_then: type[Event]
) -> None:
    first = await played(Counting(counted), event_log)
    for at in range(3):
        await first.tell(at_s=float(at))
    await first.tell(*intents(), at_s=4.0)
    with pytest.raises(PlaneError, match="not deterministic: Intent") as found:
        await (await played(Counting(by_then), event_log)).replay()
    assert found.value.breach is Breach.NOT_DETERMINISTIC


class ByDemand:
    """Grants once it has heard of a demand."""

    def targets(self, job: Job, view: View) -> dict[str, Target]:
        self._waiting: list[int] = []
        self._is_known = False
        return {}

    def on(self, event: Event) -> Iterator[Action]:
        self._waiting += [event.rank] if isinstance(event, Intent) else []
        self._is_known |= isinstance(event, Demand)
        if self._is_known and self._waiting:
            waiting, self._waiting = self._waiting, []
            yield Grant(ranks=tuple(waiting))


async def test_demand_goes_on_where_it_was_over_a_restart(event_log: EventLog) -> None:
    job = Job(id=JOB.id, ranks=(Rank(number=0, host="h0"), Rank(number=1, host="h1")), groups=JOB.groups)
    view = View(
        ports={},
        electrical={NicPortId(host=host, port="eth0"): PortView() for host in ("h0", "h1")},
        topology=lambda text: (),
    )

    async def plane() -> ReplayedPlane:
        return await played(ByDemand(), event_log, job, view, demand=AnnouncedDemand(job, every_s=1.0))

    def intent(rank: int) -> PlaneInput:
        return PlaneInput(event=Intent(rank=rank, operation=replace(operation(), size_bytes=100)))

    assert await (await plane()).tell(intent(0), at_s=0.5) == []
    second = await plane()
    await second.replay()
    assert await second.tell(intent(1), at_s=1.0) == [AnswerRanks(ranks=(0, 1))]
    events = await event_log.events(JOB.id)
    assert [one.plane_event for one in events][-1] == Demand(bytes_between={("h0", "h1"): 100.0, ("h1", "h0"): 100.0})
    third = await plane()
    await third.replay()
    await third.tell(PlaneInput(event=Done(rank=0)), intent(0), at_s=1.9)
    assert len(await event_log.events(JOB.id)) == 5, "it is not time for the next one"
    await third.tell(at_s=2.0)
    assert (await event_log.events(JOB.id))[-1].plane_event == Demand(bytes_between={("h0", "h1"): 100.0})


class Wrong:
    """Prepares a target, then grants to nobody who waits."""

    def targets(self, job: Job, view: View) -> dict[str, Target]:
        return {}

    def on(self, event: Event) -> Iterable[Action]:
        match event:
            case Intent(rank=0):
                return [Prepare(id="dark", target=Target()), Switch(target="dark")]
            case Intent():
                return [Grant(ranks=(0, 0))]
        return []


async def test_what_was_told_before_a_breach_is_written_down(event_log: EventLog) -> None:
    with pytest.raises(PlaneError, match="answer to nobody"):
        await (await played(Wrong(), event_log)).tell(*intents(), at_s=1.0)
    again = await (await played(Wrong(), event_log)).replay()
    assert again == ReplayState(has_prepared=True, events=1)


async def test_nothing_is_to_be_done_where_the_disk_does_not_take_it(records: Records) -> None:
    disk = MemoryDisk()
    event_log = EventLog(disk, records.jobs)
    plane = await played(Static("ring"), event_log)
    disk.refusal = (errno.ENOSPC, 0)
    with pytest.raises(FailedError, match="the disk does not take them: No space left on device"):
        await plane.tell(*intents(), at_s=1.0)
    disk.refusal = None
    assert await event_log.events(JOB.id) == ()
