"""What an agent tells the daemon of the ends of its host's transfers."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec

from hwd_agents.process.config import TransfersConfig
from hwd_agents.process.daemon_asks import DaemonAsks
from hwd_agents.transfers.host_transfers import HostTransfers
from hwd_agents.wire import Answer, Ask, CountedBytes
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.ids import SeededIds
from hwd_drivers.transports.memory import MemoryNet

BOOT = "8f14e45f-ceea-467f-a0e6-1f2d3c4b5a69"


async def test_claim_that_is_granted_after_its_process_went_away_is_ended_once_more(tmp_path: Path) -> None:
    """The daemon may have taken the first end before it granted the claim: it would hold the ports for the longest
    time.
    """
    path, asked = tmp_path / "transfers.sock", asyncio.Queue[Ask]()
    tasks = set[asyncio.Task[None]]()

    async def publish(payload: bytes) -> None:
        asked.put_nowait(msgspec.json.decode(payload, type=Ask))

    def spawn(work: Coroutine[Any, Any, None], what: str) -> None:
        tasks.add(asyncio.create_task(work, name=what))

    asks = DaemonAsks(host="h0", boot=BOOT, clock=SystemClock(), is_up=lambda: True, publish=publish, spawn=spawn)
    transfers = HostTransfers(
        TransfersConfig(socket=f"unix:{path}"),
        asks,
        host="h0",
        boot=BOOT,
        clock=SystemClock(),
        ports={"eth0": None},
        counted=lambda: CountedBytes(at_ns=0),
        acceptor=MemoryNet(),
        ids=SeededIds(1),
        spawn=spawn,
    )
    for name, run in transfers.runs():
        spawn(run(), name)

    def answer(ask: Ask, **data: float) -> None:
        asks.take(Answer(boot=BOOT, seq=1, id=ask.id, outcome="done", data=data))

    async with asyncio.timeout(10):
        while not path.is_socket():  # noqa: ASYNC110 - nothing tells that it listens
            await asyncio.sleep(0.01)
        _, process = await asyncio.open_unix_connection(path)
        process.write(b'{"claim": {"links": ["eth0"], "within_s": 5, "wait_s": 5}}\n')
        claim = await asked.get()
        process.close()
        first = await asked.get()
        answer(claim, within_s=5.0, waited_s=0.5)
        answer(first)
        again = await asked.get()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    ended = [claim.arguments["transfer"]]
    assert (claim.verb, first.verb, again.verb) == ("claim-transfer", "end-transfers", "end-transfers")
    assert first.arguments["transfers"] == again.arguments["transfers"] == ended
