"""Asks of an agent over each kind of broker: done once and in time, answered, or failed in bounded time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest

from hwd.bus.asks import AskedBy
from hwd.bus.gateway import Gateway
from hwd.model.host import ClockAligned, HostGarbage
from hwd_agents.bus.memory import MemoryBroker, MemoryBus
from hwd_agents.bus.mqtt import MqttBus
from hwd_agents.bus.protocol import Bus, Incoming
from hwd_agents.process.daemon_asks import DaemonAsks
from hwd_agents.wire import (
    Answer,
    Ask,
    ClaimTransfer,
    EndTransfers,
    TransferGranted,
    TransfersEnded,
    decode,
    encode,
    topic,
)
from hwd_drivers.core.clock import Clock, ShiftedClock, SystemClock
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import DeadlineError, LinkError, RefusedError
from hwd_drivers.core.ids import Draws, SeededIds

from ...bus import world
from ...bus.world import LAB
from .conftest import start_amqtt

PATIENCE_S = 20.0
CLAIM = ClaimTransfer(transfer="t1", ports=["eth0"], phase="p", process="rank", within_s=5.0)
Broker = MemoryBroker | str
Kill = Callable[[], Awaitable[None]]
Start = Callable[[], Awaitable[tuple[Broker, Kill]]]


class Peer(world.Peer):
    """One that asks. `heard`: the answers."""

    def __init__(self, broker: Broker, clock: Clock) -> None:
        super().__init__(broker, "h0", "b1", clock)
        self.heard: list[Answer] = []
        self.came = asyncio.Event()
        self.asks = DaemonAsks(
            host="h0",
            boot="b1",
            clock=clock,
            is_up=lambda: self.bus.connected,
            publish=lambda payload: self.bus.publish(topic(LAB, "h0", "ask"), payload, qos=1),
            spawn=lambda work, what: self._soon(work),
        )
        self.bus.subscribe(topic(LAB, "h0", "answer"), self.hear)
        self.bus.on_down(self.asks.lost)

    def hear(self, incoming: Incoming) -> None:
        answer = decode(incoming.payload)
        assert isinstance(answer, Answer)
        self.heard.append(answer)
        self.came.set()
        self.asks.take(answer)

    async def ask(
        self,
        id: str,
        *,
        left_s: float = 5.0,
        boot: str = "b1",
        verb: str = "claim-transfer",
        arguments: dict[str, Any] | None = None,
        times: int = 1,
    ) -> Answer:
        """The last answer to it."""
        expires_ns = self.clock.monotonic_ns() + round(left_s * 1e9)
        said = msgspec.to_builtins(CLAIM) if arguments is None else arguments
        ask = Ask(boot=boot, seq=1, id=id, expires_at_ns=expires_ns, verb=verb, arguments=said)
        self.heard.clear()
        for _ in range(times):
            await self.bus.publish(topic(LAB, "h0", "ask"), encode(ask), qos=1)
        async with asyncio.timeout(PATIENCE_S):
            while len(self.heard) < times:
                self.came.clear()
                await self.came.wait()
        return self.heard[-1]


class Lab:
    """A gateway that grants every transfer, and a peer whose clock is 5 s off."""

    def __init__(self, broker: Broker, stop: Kill) -> None:
        clock = SystemClock()
        bus: Bus = (
            MqttBus(broker, "daemon", clock, Draws(1))
            if isinstance(broker, str)
            else MemoryBus(broker, "daemon", clock)
        )
        self.stop = stop
        self.claims: list[tuple[AskedBy, ClaimTransfer]] = []
        self.documents: list[Document] = []
        self.aligned = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.gateway = Gateway(bus=bus, testbed=LAB, hosts=("h0",), clock=clock, ids=SeededIds(1), sink=self.hear)
        self.gateway.asks.serve(ClaimTransfer, self.claim)
        self.peer = Peer(broker, ShiftedClock(clock, offset_s=5, drift_ppm=50))

    def hear(self, document: Document) -> None:
        self.documents.append(document)
        if isinstance(document.fact, ClockAligned):
            self.aligned.set()

    async def claim(self, by: AskedBy, asked: ClaimTransfer) -> TransferGranted:
        self.claims.append((by, asked))
        await self.gate.wait()
        return TransferGranted(within_s=asked.within_s)


async def memory() -> tuple[Broker, Kill]:
    broker = MemoryBroker(latency_s=lambda: 0.001)

    async def stop() -> None:
        broker.stop()

    return broker, stop


@pytest.fixture(params=["memory", "amqtt", "mosquitto"])
async def lab(request: pytest.FixtureRequest, start_mosquitto: Start) -> AsyncIterator[Lab]:
    starts: dict[str, Start] = {"memory": memory, "amqtt": start_amqtt, "mosquitto": start_mosquitto}
    lab = Lab(*await starts[request.param]())
    running = asyncio.create_task(lab.gateway.run())
    lab.peer.start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            await lab.aligned.wait()
        yield lab
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await lab.peer.stop()
        await lab.stop()


async def test_ask_is_done_once_however_often_it_comes_and_answered(lab: Lab) -> None:
    granted = await lab.peer.asks.ask(CLAIM, within_s=5)
    assert granted == TransferGranted(within_s=5.0)
    ((by, asked),) = lab.claims
    assert (by.host, by.boot, asked) == ("h0", "b1", CLAIM)
    assert 4.5 < by.by_s - asyncio.get_running_loop().time() < 5
    answer = await lab.peer.ask("a1", times=3)
    assert (answer.outcome, len(lab.claims)) == ("done", 2)
    assert {(one.outcome, one.id) for one in lab.peer.heard} == {("done", "a1")}


async def test_late_ask_is_expired_and_not_done(lab: Lab) -> None:
    late = await lab.peer.ask("a1", left_s=-0.1)
    assert (late.outcome, "after its expiry" in late.why) == ("expired", True)
    far = await lab.peer.ask("a2", left_s=3600)
    assert far.outcome == "expired", "a clock was stepped"
    other = await lab.peer.ask("a3", boot="b0")
    assert (other.outcome, other.boot, lab.claims) == ("expired", "b0", [])


async def test_ask_that_nobody_serves_or_understands_is_refused(lab: Lab) -> None:
    assert "claim-transfer" in (await lab.peer.ask("a1", verb="dance")).why
    answer = await lab.peer.ask("a2", arguments={"transfer": 7})
    assert (answer.outcome, lab.claims) == ("refused", [])
    with pytest.raises(RefusedError, match="this daemon does not know it"):
        await lab.peer.asks.ask(EndTransfers(transfers=["t1"]), within_s=5)
    lab.gateway.asks.serve(EndTransfers, _ended)
    assert await lab.peer.asks.ask(EndTransfers(transfers=["t1"]), within_s=5) == TransfersEnded()
    assert not [one for one in lab.documents if isinstance(one.fact, HostGarbage)]


async def _ended(by: AskedBy, asked: EndTransfers) -> TransfersEnded:
    return TransfersEnded()


async def test_asks_over_the_rate_are_not_done_and_what_was_answered_is_answered_again_all_the_same(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await lab.peer.ask("a1")
    monkeypatch.setattr(lab.gateway._hosts["h0"].allowance, "ask", lambda: False)
    over = await lab.peer.ask("a2")
    assert (over.outcome, "Ask again in a second" in over.why, len(lab.claims)) == ("expired", True, 1)
    again = await lab.peer.ask("a1")
    assert (again.outcome, len(lab.claims)) == (first.outcome, 1)


async def test_broker_that_goes_away_fails_the_ask_at_once(lab: Lab) -> None:
    lab.gate.clear()
    asking = asyncio.create_task(lab.peer.asks.ask(CLAIM, within_s=15))
    async with asyncio.timeout(PATIENCE_S):
        while not lab.claims:  # noqa: ASYNC110 - real brokers, and nothing tells it
            await asyncio.sleep(0.01)
    began_s = asyncio.get_running_loop().time()
    await lab.stop()
    with pytest.raises(LinkError, match="Try again"):
        await asking
    assert asyncio.get_running_loop().time() - began_s < 5
    with pytest.raises(LinkError, match="the broker is not connected"):
        await lab.peer.asks.ask(CLAIM, within_s=5)
    lab.gate.set()


async def test_silent_daemon_fails_the_ask_at_its_expiry(lab: Lab) -> None:
    lab.gate.clear()
    began_s = asyncio.get_running_loop().time()
    with pytest.raises(DeadlineError, match="Is `hwd serve` running"):
        await lab.peer.asks.ask(CLAIM, within_s=0.3)
    assert asyncio.get_running_loop().time() - began_s < 2
    lab.gate.set()
