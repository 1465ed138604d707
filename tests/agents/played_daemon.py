"""An agent's transfer socket on a real Unix socket, with a daemon behind it that a test plays by hand."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Self

import msgspec

from hwd_agents.process.config import TransfersConfig
from hwd_agents.process.daemon_asks import DaemonAsks
from hwd_agents.sources.kernel.ip_counters import KernelIpCounters
from hwd_agents.sources.kernel.port_counters import KernelBytes
from hwd_agents.sources.kernel.sockets import HostSockets
from hwd_agents.transfers.host_transfers import HostTransfers
from hwd_agents.transfers.port_bytes import PortBytesReader
from hwd_agents.wire import Answer, Ask
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import FailedError, RefusedError
from hwd_drivers.core.ids import SeededIds
from hwd_drivers.transports.memory import MemoryNet

JOB: dict[str, Any] = {"job": "j7x2a1b9", "rank": 1, "key": "secret"}
"""How rank 1 names itself."""
JOINED: dict[str, Any] = {
    "ranks": [
        {"host": "h1", "gpu": None, "optical": {"eth0": "10.0.0.1"}, "electrical": {}},
        {"host": "h0", "gpu": None, "optical": {"eth0": "10.0.0.2"}, "electrical": {"eth9": "10.9.0.2"}},
    ],
    "groups": {"world": [0, 1]},
}
GRANTED: dict[str, Any] = {"within_s": 5.0, "waited_s": 0.0, "ports": ["eth0"]}


class HostWithDaemon:
    """One boot of the agent of host h0. `asked`: all that it asked, in order; what is in `reactions`, by verb, is
    answered at once by that.
    """

    def __init__(self, path: Path, *, boot: str = "b1") -> None:
        self.path = path
        self.boot = boot
        self.is_up = True
        self.asked: list[Ask] = []
        self.reactions: dict[str, Callable[[Ask], dict[str, Any]]] = {}
        self._unanswered = asyncio.Queue[Ask]()
        self._tasks: set[asyncio.Task[None]] = set()
        self._asks = DaemonAsks(
            host="h0",
            boot=boot,
            clock=SystemClock(),
            is_up=lambda: self.is_up,
            publish=self._publish,
            spawn=self._spawn,
        )
        self._bytes = KernelBytes(HostSockets())
        self._ip_counters = KernelIpCounters(HostSockets())
        self.transfers = HostTransfers(
            TransfersConfig(socket=f"unix:{path}"),
            self._asks,
            host="h0",
            boot=boot,
            clock=SystemClock(),
            ports={"eth0": None},
            counted=PortBytesReader(SystemClock(), {"eth0": "lo"}, self._bytes, self._ip_counters).read,
            acceptor=MemoryNet(),
            ids=SeededIds(1),
            spawn=self._spawn,
        )

    async def __aenter__(self) -> Self:
        for name, run in self.transfers.runs():
            self._spawn(run(), name)
        async with asyncio.timeout(10):
            while not self.path.is_socket():  # noqa: ASYNC110 - nothing tells that it listens
                await asyncio.sleep(0.01)
        return self

    async def __aexit__(self, *error: object) -> None:
        """Stop the agent: it hangs up on its processes."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._bytes.close()
        self._ip_counters.close()

    async def ask(self, verb: str) -> Ask:
        """The next ask without a reaction; it is of this verb."""
        async with asyncio.timeout(10):
            ask = await self._unanswered.get()
        assert ask.verb == verb
        return ask

    async def claim(self) -> Ask:
        """The next ask for an operation; all others before it stay without an answer."""
        async with asyncio.timeout(10):
            while (ask := await self._unanswered.get()).verb != "claim-operation":
                pass
        return ask

    def done(self, ask: Ask, **data: Any) -> None:
        self._asks.take(Answer(boot=self.boot, seq=1, id=ask.id, outcome="done", data=data))

    def refuse(self, ask: Ask, why: str) -> None:
        self._asks.take(Answer(boot=self.boot, seq=1, id=ask.id, outcome="refused", why=why))

    def fail(self, ask: Ask, why: str) -> None:
        self._asks.take(Answer(boot=self.boot, seq=1, id=ask.id, outcome="failed", why=why))

    def verbs(self) -> list[str]:
        """Of all that was asked."""
        return [ask.verb for ask in self.asked]

    async def report(self) -> list[dict[str, Any]]:
        """The transfers that the daemon hears of when it asks for them."""
        answer = await self.transfers.verbs["report-transfers"]({})
        found: list[dict[str, Any]] = answer["transfers"]
        return found

    async def _publish(self, payload: bytes) -> None:
        ask = msgspec.json.decode(payload, type=Ask)
        self.asked.append(ask)
        if (reaction := self.reactions.get(ask.verb)) is None:
            self._unanswered.put_nowait(ask)
            return
        try:
            self.done(ask, **reaction(ask))
        except RefusedError as error:
            self.refuse(ask, str(error))
        except FailedError as error:
            self.fail(ask, str(error))

    def _spawn(self, work: Coroutine[Any, Any, None], what: str) -> None:
        task = asyncio.create_task(work, name=what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class Process:
    """A process of the host at the socket, line by line."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, path: Path) -> Self:
        return cls(*await asyncio.open_unix_connection(path))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def say(self, line: dict[str, Any] | bytes) -> None:
        self._writer.write((line if isinstance(line, bytes) else msgspec.json.encode(line)) + b"\n")

    async def line(self) -> dict[str, Any]:
        """The next one that the agent says."""
        async with asyncio.timeout(120):
            found: dict[str, Any] = msgspec.json.decode(await self._reader.readline())
        return found

    async def answer(self, line: dict[str, Any] | bytes) -> dict[str, Any]:
        self.say(line)
        return await self.line()

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()
