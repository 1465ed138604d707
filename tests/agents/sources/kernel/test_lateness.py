"""How late a loop may be: all that its thread has worked, little while it sleeps, and everything where nobody can tell."""

import asyncio
import random
import select
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hwd_agents.process.agent_loop import AgentLoop
from hwd_agents.sources.kernel.lateness import MARK_EVERY_NS, SCHEDSTAT, Lateness
from hwd_drivers.core.clock import SystemClock

MS = 1_000_000
WORK_NS = 50 * MS
DATAGRAMS = 100
SENDER = f"""
import random, socket, time
draw, sent_ns = random.Random(4), []
with socket.socket(fileno=0) as out:
    for number in range({DATAGRAMS}):
        time.sleep(draw.uniform(0, 0.012))
        out.send(str(number).encode())
        sent_ns.append(time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW))
print(*sent_ns)
"""
needs_schedstat = pytest.mark.skipif(not Path(SCHEDSTAT).exists(), reason="this kernel has no schedstat")


@pytest.fixture
def clock() -> SystemClock:
    return SystemClock()


@pytest.fixture
async def lateness(clock: SystemClock) -> AsyncIterator[Lateness]:
    made = Lateness(clock)
    made.start()
    yield made
    made.stop()


def work(clock: SystemClock, work_ns: int = WORK_NS) -> None:
    until_ns = clock.monotonic_ns() + work_ns
    while clock.monotonic_ns() < until_ns:
        pass


@needs_schedstat
async def test_what_the_thread_works_counts_until_the_mark_after_next(lateness: Lateness, clock: SystemClock) -> None:
    work(clock)
    assert lateness.most_ns() >= WORK_NS * 0.95
    async with asyncio.timeout(20):
        while lateness.most_ns() >= WORK_NS / 2:  # noqa: ASYNC110 - nothing tells of a mark
            await asyncio.sleep(MARK_EVERY_NS / 1e9)


@needs_schedstat
async def test_work_between_two_ticks_of_the_kernel_counts_too(lateness: Lateness, clock: SystemClock) -> None:
    counted_ns: list[int] = []
    for _ in range(100):
        await asyncio.sleep(0.003)
        before_ns = lateness.most_ns()
        work(clock, 2 * MS)
        after_ns = lateness.most_ns()
        if after_ns >= before_ns:  # else a mark was set meanwhile
            counted_ns.append(after_ns - before_ns)
    short = [each for each in counted_ns if each < 2 * MS * 0.95]
    assert len(short) <= 2, "a machine below this one may take some"
    assert len(counted_ns) > 50


async def test_all_of_the_time_counts_where_the_kernel_does_not_tell(clock: SystemClock, tmp_path: Path) -> None:
    lateness = Lateness(clock, path=str(tmp_path / "schedstat"))
    lateness.start()
    work(clock)
    assert lateness.most_ns() >= WORK_NS
    lateness.stop()
    lateness.stop()


@needs_schedstat
def test_a_loop_that_tells_of_its_looks_is_not_woken_by_marks(clock: SystemClock) -> None:
    async def looks() -> int:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, AgentLoop)
        lateness, seen = Lateness(clock), [0]
        lateness.start()
        loop.before_look.append(lambda: seen.append(clock.monotonic_ns()))
        await asyncio.sleep(20 * MARK_EVERY_NS / 1e9)
        lateness.stop()
        return len(seen) - 1

    with asyncio.Runner(loop_factory=AgentLoop) as runner:
        assert 0 < runner.run(looks()) < 10


@needs_schedstat
def test_what_the_thread_sleeps_elsewhere_than_in_its_look_counts_and_what_it_sleeps_there_does_not(
    clock: SystemClock,
) -> None:
    async def most_ns() -> tuple[int, int]:
        lateness = Lateness(clock)
        lateness.start()
        await asyncio.sleep(WORK_NS / 1e9)
        in_look_ns = lateness.most_ns()
        select.poll().poll(WORK_NS / MS)  # as a write to a disk that takes none for a while
        elsewhere_ns = lateness.most_ns()
        lateness.stop()
        return in_look_ns, elsewhere_ns

    with asyncio.Runner(loop_factory=AgentLoop) as runner:
        least_ns, most = zip(*(runner.run(most_ns()) for _ in range(5)), strict=True)
    assert min(least_ns) < WORK_NS / 2
    assert min(most) >= WORK_NS * 0.99


@needs_schedstat
def test_what_keeps_whoever_reads_first_counts_from_its_stamp(clock: SystemClock) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)

    async def most_ns() -> int:
        lateness, loop = Lateness(clock), asyncio.get_running_loop()
        assert isinstance(loop, AgentLoop)
        told: asyncio.Future[int] = loop.create_future()

        def take() -> None:
            ours.recv(64)
            lateness.woke(clock.monotonic_ns())
            select.poll().poll(WORK_NS / MS)  # as what it puts down on a disk that takes nothing for a while
            loop.call_soon(lambda: told.set_result(lateness.most_ns()))

        lateness.start()
        loop.read_first(ours.fileno(), take)
        loop.call_later(WORK_NS / 1e9, theirs.send, b"told")
        most_ns = await told
        loop.read_first_no_more(ours.fileno())
        lateness.stop()
        return most_ns

    with ours, theirs, asyncio.Runner(loop_factory=AgentLoop) as runner:
        assert WORK_NS * 0.99 <= min(runner.run(most_ns()) for _ in range(3)) < 2 * WORK_NS


@needs_schedstat
def test_no_mark_is_set_while_what_came_before_it_is_still_to_be_read(clock: SystemClock) -> None:
    async def most_ns() -> tuple[int, int]:
        lateness = Lateness(clock)
        lateness.start()
        work(clock)
        lateness.behind = True
        for _ in range(3):
            await asyncio.sleep(2 * MARK_EVERY_NS / 1e9)
        behind_ns = lateness.most_ns()
        lateness.behind = False
        for _ in range(3):
            await asyncio.sleep(2 * MARK_EVERY_NS / 1e9)
        level_ns = lateness.most_ns()
        lateness.stop()
        return behind_ns, level_ns

    with asyncio.Runner(loop_factory=AgentLoop) as runner:
        behind_ns, level_ns = zip(*(runner.run(most_ns()) for _ in range(3)), strict=True)
    assert min(behind_ns) >= WORK_NS * 0.95
    assert min(level_ns) < WORK_NS / 2


@needs_schedstat
def test_nothing_that_such_a_loop_reads_came_earlier_than_it_says(clock: SystemClock) -> None:
    """Datagrams of another process, which says when each had surely been sent, come while the loop works and while it sleeps."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    read: dict[int, tuple[int, int]] = {}

    async def life() -> list[int]:
        lateness, draw = Lateness(clock), random.Random(3)
        lateness.start()

        def take() -> None:
            number = int(ours.recv(64))
            read[number] = clock.monotonic_ns(), lateness.most_ns()

        asyncio.get_running_loop().add_reader(ours, take)
        sender = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SENDER, stdin=theirs.fileno(), stdout=asyncio.subprocess.PIPE
        )
        telling = asyncio.create_task(sender.communicate())
        while not telling.done() or len(read) < DATAGRAMS:
            work(clock, draw.randrange(8 * MS))
            await asyncio.sleep(draw.uniform(0, 0.008))
        lateness.stop()
        asyncio.get_running_loop().remove_reader(ours)
        return [int(each) for each in telling.result()[0].split()]

    with ours, theirs, asyncio.Runner(loop_factory=AgentLoop) as runner:
        sent_ns = runner.run(life())
    early = [number for number, (at_ns, most_ns) in read.items() if at_ns - most_ns > sent_ns[number]]
    assert len(early) <= DATAGRAMS // 50, "the kernel's own work may come between"
    least_ns = sorted(most_ns for _, most_ns in read.values())[DATAGRAMS // 10]
    assert least_ns < WORK_NS, "what it says is of some use"


def test_a_loop_of_a_kernel_that_does_not_tell_marks_by_a_timer(clock: SystemClock, tmp_path: Path) -> None:
    async def most_ns() -> int:
        lateness = Lateness(clock, path=str(tmp_path / "schedstat"))
        lateness.start()
        await asyncio.sleep(WORK_NS / 1e9)
        least_ns = lateness.most_ns()
        lateness.stop()
        return least_ns

    with asyncio.Runner(loop_factory=AgentLoop) as runner:
        assert min(runner.run(most_ns()) for _ in range(5)) < WORK_NS / 2
