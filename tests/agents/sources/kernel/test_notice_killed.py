"""An agent that is killed between a notice and its event: the next one knows by the kernel's count that something
changed, and not when.
"""

import asyncio
import contextlib
import os
import random
import signal
import sys
from pathlib import Path

import pytest

from hwd.twin.kernel import Bracket, Crossbar, Keeper
from hwd_agents.sources.kernel.rtnetlink import RtnetlinkLinks
from hwd_agents.wire import EVENTS_MAX
from hwd_drivers.core.clock import SystemClock

from .notice_process import Life

pytestmark = pytest.mark.kernel

SCRIPT = Path(__file__).with_name("notice_process.py")
WITHIN_S = 20.0


async def look(keeper: Keeper, folder: Path, boot: str) -> Life:
    """An agent that has looked once, and ended in order."""
    sockets = keeper.sockets("h0")
    other = Life(RtnetlinkLinks(sockets, SystemClock()), sockets, folder, boot)
    watching = asyncio.create_task(other.watchers.link.run())
    async with asyncio.timeout(WITHIN_S):
        await other.looked.wait()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    other.close()
    return other


async def test_a_change_whose_agent_was_killed_at_its_notice_is_known_by_the_count_and_reported_once(
    keeper: Keeper, crossbar: Crossbar, tmp_path: Path
) -> None:
    crossbar.plug("a", host="h0", interface="eth0")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(SCRIPT), str(keeper.path), str(tmp_path), "b1", "1"), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(WITHIN_S):
            assert await process.stdout.readline() == b"watching\n"
            bracket = crossbar.carrier("a", True)
            assert await process.wait() == -signal.SIGKILL
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    crossbar.carrier("a", False)
    crossbar.carrier("a", True)
    started_ns = SystemClock().monotonic_ns()
    (counted,) = (await look(keeper, tmp_path, "b2")).events()
    assert (counted.data["carrier"], counted.data["unseen"]) == (True, 2)
    assert counted.earliest_ns <= bracket.after_ns
    assert bracket.before_ns < started_ns <= counted.at_ns
    assert (await look(keeper, tmp_path, "b3")).events() == []


@pytest.mark.slow
async def test_each_change_is_reported_or_counted_once_when_agents_are_killed_anywhere(
    keeper: Keeper, crossbar: Crossbar, tmp_path: Path
) -> None:
    crossbar.plug("a", host="h0", interface="eth0")
    first = (await look(keeper, tmp_path, "first")).watchers.link.reading("eth0")
    assert first is not None
    draw, made = random.Random(5), list[Bracket]()

    async def flap() -> None:
        while True:
            made.append(crossbar.carrier("a", len(made) % 2 == 0))
            await asyncio.sleep(draw.choice((0, 0.001, 0.01, 0.03)))

    flapping = asyncio.create_task(flap())
    for number in range(40):
        arguments = (str(keeper.path), str(tmp_path), f"b{number}", str(draw.randrange(1, 30)))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(SCRIPT), *arguments), stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        await process.stdout.readline()  # its start takes longer than some of these lives
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), draw.uniform(0, 0.6))
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)  # `process.kill` may take from the loop the status of one that is dead
        assert await process.wait() == -signal.SIGKILL
    flapping.cancel()
    await asyncio.gather(flapping, return_exceptions=True)
    spool = (await look(keeper, tmp_path, "last")).spool
    told = [
        stored.event
        for boot in spool.events
        for after in range(0, len(made), EVENTS_MAX)
        for stored in spool.batch(boot, after=after)
    ]
    count, carrier, early = first.carrier_changes, first.carrier, 0
    for event in told:
        changes = int(event.data["carrier_changes"])
        assert changes - count == (carrier != event.data["carrier"]) + int(event.data["unseen"]) > 0
        count, carrier = changes, bool(event.data["carrier"])
        bracket = made[changes - first.carrier_changes - 1]
        assert event.at_ns >= bracket.before_ns
        early += event.earliest_ns > bracket.after_ns
    assert count == first.carrier_changes + len(made)
    assert early <= len(told) // 50, "the kernel's worker may be late"
    assert [event.at_ns for event in told] == sorted(event.at_ns for event in told)
    assert sum(event.data["unseen"] == 0 for event in told) > 100, "one by one"
