"""An ask of an agent, answered by the daemon, against a bare request over the same broker and over a connection."""

import asyncio
import contextlib
import math
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import aiomqtt
from typing_extensions import override

from bench.broker import mosquitto
from bench.measure import Bar, Summary, alternate, ratios
from bench.progress import Progress
from bench.switches.driven_rack import SilentAgents
from hwd.bus.allowance import ASKS_PER_S
from hwd.bus.broker import EmbeddedBroker
from hwd.bus.gateway import Gateway
from hwd.daemon.installed_drivers import load_text
from hwd.model.host import ClockAligned
from hwd.ports.ledger import Ledger
from hwd.reconfigure.transfers import Transfers
from hwd.records.records import Records
from hwd_agents.bus.mqtt import MqttBus
from hwd_agents.bus.protocol import Incoming
from hwd_agents.process.daemon_asks import DaemonAsks
from hwd_agents.wire import (
    Answer,
    Ask,
    Birth,
    ClaimTransfer,
    ClockReply,
    ClockRequest,
    EndTransfers,
    Inventory,
    State,
    decode,
    encode,
    topic,
)
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import LinkError
from hwd_drivers.core.ids import Draws, RandomIds
from hwd_drivers.core.offload import InlineOffload

TESTBED, HOST, BOOT = "bench", "h0", "8f14e45f-ceea-467f-a0e6-1f2d3c4b5a69"
CLAIM = ClaimTransfer(transfer="8f14e45f-1", ports=["eth0"], phase="all-reduce 7", process="rank 3", within_s=5.0)
LIMIT = 1.5
RACK = f"testbed: {TESTBED}\nhosts:\n  {HOST}: {{nics: {{eth0: {{ip: 10.1.0.1/32, module: 100g-lr4}}}}}}\n"
AT_ONCE = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
BROKERS = ("Mosquitto", "embedded broker")
"""The bar is for Mosquitto: the embedded broker shares the loop with both ends here."""


class Ours:
    """The daemon's gateway with its ledger of transfers, and what an agent has of asks, in one loop."""

    def __init__(self, url: str) -> None:
        clock, ids = SystemClock(), RandomIds()
        self._clock = clock
        self._aligned = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        bus = MqttBus(url, "bench-daemon", clock, Draws(None))
        gateway = Gateway(bus=bus, testbed=TESTBED, hosts=(HOST,), clock=clock, ids=ids, sink=self._hear)
        self._records = Records("sqlite://", InlineOffload())
        self._transfers = Transfers(
            Ledger(),
            load_text(RACK, file="bench.yaml").require(),
            store=self._records.transfers,
            agents=SilentAgents(),
            clock=clock,
            sink=self._hear,
            announce=self._hear,
        )
        gateway.asks.serve(ClaimTransfer, self._transfers.claim)
        gateway.asks.serve(EndTransfers, self._transfers.end)
        self._gateway = gateway
        self._bus = MqttBus(url, "bench-agent", clock, Draws(None))
        self.asks = DaemonAsks(
            host=HOST,
            boot=BOOT,
            clock=clock,
            is_up=lambda: self._bus.connected,
            publish=lambda payload: self._bus.publish(topic(TESTBED, HOST, "ask"), payload, qos=1),
            spawn=self._spawn,
        )
        self._bus.subscribe(topic(TESTBED, HOST, "clock"), self._take)
        self._bus.subscribe(topic(TESTBED, HOST, "answer"), self._take)
        self._bus.on_up(lambda: self._spawn(self._be_born(), "birth"))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Ours"]:
        await self._records.open()
        runs = [asyncio.create_task(run()) for run in (self._gateway.run, self._bus.run, self._transfers.run)]
        try:
            async with asyncio.timeout(120.0):
                await self._aligned.wait()
            yield self
        finally:
            for run in runs:
                run.cancel()
            await asyncio.gather(*runs, *self._tasks, return_exceptions=True)
            self._records.close()

    async def claim(self) -> float:
        """The seconds from the claim to the word that it may go; it is ended outside of these."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        await self.asks.ask(CLAIM, within_s=5.0)
        took_s = loop.time() - began_s
        await self.asks.ask(EndTransfers(transfers=[CLAIM.transfer]), within_s=5.0)
        await asyncio.sleep(2 / ASKS_PER_S)  # the daemon takes no more of one host
        return took_s

    def _hear(self, document: Document) -> None:
        self._transfers(document)
        if isinstance(document.fact, ClockAligned):
            self._aligned.set()

    def _spawn(self, work: Coroutine[Any, Any, None], what: str) -> None:
        async def run() -> None:
            with contextlib.suppress(LinkError):  # at the end the broker goes away
                await work

        task = asyncio.create_task(run(), name=what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _be_born(self) -> None:
        birth = Birth(
            boot=BOOT,
            seq=1,
            host=HOST,
            testbed=TESTBED,
            version="0",
            at_ns=self._clock.monotonic_ns(),
            ports={},
            inventory=Inventory(kernel="6.1"),
            spool_oldest_seq=1,
            spool_next_seq=1,
            spool_lost=0,
        )
        # Retained as an agent has it: the daemon may subscribe after it.
        await self._bus.publish(topic(TESTBED, HOST, "birth"), encode(birth), qos=1, retain=True)
        up = State(boot=BOOT, seq=1, state="up")
        await self._bus.publish(topic(TESTBED, HOST, "state"), encode(up), qos=1, retain=True)

    def _take(self, incoming: Incoming) -> None:
        match decode(incoming.payload):
            case Answer() as answer:
                self.asks.take(answer)
            case ClockRequest(id=id, t1_ns=t1_ns):
                now_ns = self._clock.monotonic_ns()
                reply = ClockReply(boot=BOOT, seq=1, id=id, t1_ns=t1_ns, t2_ns=incoming.at_ns, t3_ns=now_ns)
                self._spawn(self._bus.publish(topic(TESTBED, HOST, "reply"), encode(reply)), "clock")


def payloads() -> tuple[bytes, bytes]:
    """A claim and its answer, as they go over the wire."""
    arguments = {"transfer": "8f14e45f-1", "ports": ["eth0"], "phase": "all-reduce 7", "process": "rank 3"}
    ask = Ask(
        boot=BOOT,
        seq=1000,
        id="1000",
        expires_at_ns=10**15,
        verb="claim-transfer",
        arguments={**arguments, "within_s": 5.0, "wait_s": 0.0},
    )
    data = {"within_s": 5.0, "waited_s": 0.000_012_345}
    return encode(ask), encode(Answer(boot=BOOT, seq=1000, id="1000", outcome="done", data=data))


@contextlib.asynccontextmanager
async def bare_request(url: str) -> AsyncIterator[Callable[[], Coroutine[Any, Any, float]]]:
    """Send the same bytes there and back over the broker at QoS 1, by two clients of aiomqtt and nothing else.

    `math.inf`: with a timeout aiomqtt uses `asyncio.wait_for`, which in Python 3.11 loses a cancellation that comes
    together with the result; `answering` would never end.
    """
    port = int(url.rpartition(":")[2])
    asked, answered = payloads()
    async with (
        aiomqtt.Client("127.0.0.1", port, identifier="bench-asker", socket_options=AT_ONCE) as asker,
        aiomqtt.Client("127.0.0.1", port, identifier="bench-answerer", socket_options=AT_ONCE) as answerer,
    ):
        await asker.subscribe("bare/answer", qos=1)
        await answerer.subscribe("bare/ask", qos=1)

        async def echo() -> None:
            async for _ in answerer.messages:
                await answerer.publish("bare/answer", answered, qos=1, timeout=math.inf)

        async def ask() -> float:
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            publishing = asyncio.create_task(asker.publish("bare/ask", asked, qos=1, timeout=math.inf))
            await anext(asker.messages)
            took_s = loop.time() - began_s
            await publishing
            return took_s

        answering = asyncio.create_task(echo())
        try:
            yield ask
        finally:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)


class _End(asyncio.Protocol):
    """One end of a bare connection: calls `came` for each line."""

    def __init__(self, came: Callable[[asyncio.Transport], None]) -> None:
        self._came = came
        self._buffer = b""
        self.transport: asyncio.Transport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for _ in lines:
            self._came(self.transport)


@contextlib.asynccontextmanager
async def bare_connection() -> AsyncIterator[Callable[[], Coroutine[Any, Any, float]]]:
    """Send the same bytes there and back over one TCP connection, without a broker."""
    asked, answered = payloads()
    loop = asyncio.get_running_loop()
    waiting: list[asyncio.Future[None]] = []
    server = await loop.create_server(lambda: _End(lambda end: end.write(answered + b"\n")), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    def came(end: asyncio.Transport) -> None:
        waiting[-1].set_result(None)

    transport, _ = await loop.create_connection(lambda: _End(came), "127.0.0.1", port)

    async def ask() -> float:
        waiting[:] = [loop.create_future()]
        began_s = loop.time()
        transport.write(asked + b"\n")
        await waiting[0]
        return loop.time() - began_s

    try:
        yield ask
    finally:
        transport.close()
        server.close()
        await server.wait_closed()


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    rounds = 40 if quick else 2000
    bars: list[Bar] = []
    for name in BROKERS:
        progress.say(f"asks: {rounds} claims over {name}")
        async with contextlib.AsyncExitStack() as stack:
            if name == "Mosquitto":
                url = f"mqtt://127.0.0.1:{await stack.enter_async_context(mosquitto(folder))}"
            else:
                broker = EmbeddedBroker()
                url = await broker.start()
                stack.push_async_callback(broker.close)
            ours = await stack.enter_async_context(Ours(url).running())
            bare = await stack.enter_async_context(bare_request(url))
            direct = await stack.enter_async_context(bare_connection())
            claimed, asked, sent = await alternate(rounds, ours.claim, bare, direct)
        factor, direct_factor = ratios(claimed, asked), ratios(claimed, sent)
        our, floor, wire = (Summary.of([one * 1e6 for one in times]) for times in (claimed, asked, sent))
        detail = {"ours": our.to_data(), "bare request": floor.to_data(), "bare connection": wire.to_data()}
        quartiles = f"quartiles {factor.p25:.2f}-{factor.p75:.2f}; {our.median:.0f} us over {floor.median:.0f} us"
        bars.append(
            Bar(
                name=f"an ask answered by the daemon, {name}",
                value=factor.median,
                limit=LIMIT if name == "Mosquitto" else None,
                unit="x",
                spread=quartiles,
                n=rounds,
                detail=detail,
            )
        )
        bars.append(
            Bar(
                name=f"an ask answered by the daemon, against a bare connection without a broker, {name}",
                value=direct_factor.median,
                limit=None,
                unit="x",
                spread=f"{our.median:.0f} us (p99 {our.p99:.0f}) over {wire.median:.0f} us (p99 {wire.p99:.0f})",
                n=rounds,
                detail=detail,
            )
        )
    return bars
