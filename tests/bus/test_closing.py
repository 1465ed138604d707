"""Messages that come while the gateway closes are let go, without a word in the log."""

import asyncio
import logging

import pytest
from typing_extensions import override

from hwd.bus.asks import AskedBy
from hwd.bus.containment import Containment
from hwd_agents.bus.memory import MemoryBus
from hwd_agents.wire import Ask, EndTransfers, TransfersEnded
from hwd_drivers.core.structs import to_plain

from .world import Peer, World

CLOSING_S = 1.0


class LeavesSlowly(MemoryBus):
    """Still hears its broker while it leaves it."""

    @override
    async def run(self) -> None:
        running = asyncio.create_task(super().run())
        try:
            await asyncio.wait([running])
        finally:
            await asyncio.sleep(CLOSING_S)
            running.cancel()


def ask(peer: Peer, id: str) -> Ask:
    arguments = to_plain(EndTransfers(transfers=[]))
    expires_ns = peer.clock.monotonic_ns() + 5_000_000_000
    return Ask(boot=peer.boot, seq=1, id=id, expires_at_ns=expires_ns, verb=EndTransfers.VERB, arguments=arguments)


@pytest.mark.parametrize("world", [{"client": LeavesSlowly}], indirect=True)
async def test_an_ask_and_another_boot_that_come_while_it_closes_are_let_go(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    served: list[str] = []

    async def end_transfers(by: AskedBy, asked: EndTransfers) -> TransfersEnded:
        served.append(by.host)
        return TransfersEnded()

    world.gateway.asks.serve(EndTransfers, end_transfers)
    peer = await world.aligned_peer()
    await peer.say("ask", ask(peer, "before"), qos=1)
    await asyncio.sleep(CLOSING_S / 4)
    assert served == ["h0"]
    closing = asyncio.create_task(world.stop())
    await asyncio.sleep(CLOSING_S / 4)
    await peer.say("ask", ask(peer, "before"), qos=1)  # delivered again: its answer would be, too
    await peer.say("ask", ask(peer, "while it closes"), qos=1)
    world.peer("h0", "boot-2")  # the gateway would ask boot-1 whether it still runs
    await asyncio.sleep(CLOSING_S / 4)
    assert not closing.done()
    await closing
    assert served == ["h0"]
    assert world.of("host.trouble") == []
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_work_that_its_group_does_not_take_is_let_go(virtual_time: None) -> None:
    done: list[str] = []
    containment = Containment(lambda *each: None)
    containment.group = tasks = asyncio.TaskGroup()

    async def work() -> None:
        done.append("work")

    async def close() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            assert not containment.begin("h0", "its asks", work, name="while it closes")

    async def run() -> None:
        async with tasks:
            tasks.create_task(close())

    assert not containment.begin("h0", "its asks", work, name="before it has begun")
    running = asyncio.create_task(run())
    await asyncio.sleep(1)
    running.cancel()
    await asyncio.wait([running])
    assert not containment.begin("h0", "its asks", work, name="after its end")
    await asyncio.sleep(1)
    assert done == []
