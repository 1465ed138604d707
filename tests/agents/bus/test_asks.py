"""Asks of an agent over each kind of broker: done once and in time, answered, or failed in bounded time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import msgspec
import pytest

from hwd.bus.asks import AskedBy
from hwd.bus.broker import EmbeddedBroker
from hwd.bus.gateway import Gateway
from hwd.model.documents.hosts import ClockAligned, HostGarbage
from hwd_agents.bus.memory import MemoryBroker, MemoryBus
from hwd_agents.bus.mqtt import MqttBus
from hwd_agents.bus.protocol import Bus, Incoming
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

PATIENCE_S = 20.0
CLAIM = ClaimTransfer(transfer="t1", ports=["eth0"], phase="p", process="rank", within_s=5.0)
Kill = Callable[[], Coroutine[Any, Any, None]]
Start = Callable[[], Awaitable[tuple[str, Kill]]]


class Peer:
    """One boot of an agent, as far as asks need it: birth, clock, and the answers to its asks."""

    def __init__(self, bus: Bus, clock: Clock, *, boot: str = "b1") -> None:
        self.bus, self.clock, self.boot = bus, clock, boot
        self.answers: list[Answer] = []
        self.came = asyncio.Event()
        self.tasks: set[asyncio.Task[None]] = set()
        self.asks = DaemonAsks(
            host="h0",
            boot=boot,
            clock=clock,
            is_up=lambda: bus.connected,
            publish=lambda payload: bus.publish(topic("lab", "h0", "ask"), payload, qos=1),
            spawn=self.spawn,
        )
        for leaf in ("clock", "answer"):
            bus.subscribe(topic("lab", "h0", leaf), self.take)
        bus.on_up(lambda: self.spawn(self.be_born(), "birth"))
        bus.on_down(self.asks.lost)

    def spawn(self, work: Coroutine[Any, Any, None], what: str) -> None:
        task = asyncio.create_task(work, name=what)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def be_born(self) -> None:
        birth = Birth(
            boot=self.boot,
            seq=1,
            host="h0",
            testbed="lab",
            version="0.1.0",
            at_ns=self.clock.monotonic_ns(),
            ports={},
            inventory=Inventory(kernel="6.1"),
            spool_oldest_seq=1,
            spool_next_seq=1,
            spool_lost=0,
        )
        await self.bus.publish(topic("lab", "h0", "birth"), encode(birth), qos=1, retain=True)
        up = State(boot=self.boot, seq=1, state="up")
        await self.bus.publish(topic("lab", "h0", "state"), encode(up), qos=1, retain=True)

    def take(self, incoming: Incoming) -> None:
        match decode(incoming.payload):
            case Answer() as answer:
                self.answers.append(answer)
                self.came.set()
                self.asks.take(answer)
            case ClockRequest() as asked if asked.boot == self.boot:
                reply = ClockReply(
                    boot=self.boot,
                    seq=1,
                    id=asked.id,
                    t1_ns=asked.t1_ns,
                    t2_ns=incoming.at_ns,
                    t3_ns=self.clock.monotonic_ns(),
                )
                self.spawn(self.bus.publish(topic("lab", "h0", "reply"), encode(reply)), "clock")

    async def send(self, ask: Ask, *, times: int = 1) -> Answer:
        """The last answer to it."""
        self.answers.clear()
        for _ in range(times):
            await self.bus.publish(topic("lab", "h0", "ask"), encode(ask), qos=1)
        async with asyncio.timeout(PATIENCE_S):
            while len(self.answers) < times:
                self.came.clear()
                await self.came.wait()
        return self.answers[-1]

    def ask(self, id: str, *, left_s: float = 5.0, boot: str | None = None, verb: str = "claim-transfer") -> Ask:
        expires_ns = self.clock.monotonic_ns() + round(left_s * 1e9)
        arguments = msgspec.to_builtins(CLAIM)
        return Ask(boot=boot or self.boot, seq=1, id=id, expires_at_ns=expires_ns, verb=verb, arguments=arguments)


class Lab:
    """A gateway that grants every transfer, and a peer whose clock is 5 s off."""

    def __init__(self, bus: Callable[[str, Clock], Bus], stop: Kill) -> None:
        clock = SystemClock()
        self.stop = stop
        self.claims: list[tuple[AskedBy, ClaimTransfer]] = []
        self.documents: list[Document] = []
        self.aligned = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.gateway = Gateway(
            bus=bus("daemon", clock), testbed="lab", hosts=("h0",), clock=clock, ids=SeededIds(1), sink=self.hear
        )
        self.gateway.asks.serve(ClaimTransfer, self.claim)
        shifted = ShiftedClock(clock, offset_s=5, drift_ppm=50)
        self.peer = Peer(bus("h0", shifted), shifted)

    def hear(self, document: Document) -> None:
        self.documents.append(document)
        if isinstance(document.fact, ClockAligned):
            self.aligned.set()

    async def claim(self, by: AskedBy, asked: ClaimTransfer) -> TransferGranted:
        self.claims.append((by, asked))
        await self.gate.wait()
        return TransferGranted(within_s=asked.within_s)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Lab"]:
        runs = [asyncio.create_task(self.gateway.run()), asyncio.create_task(self.peer.bus.run())]
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.aligned.wait()
            yield self
        finally:
            for run in runs:
                run.cancel()
            await asyncio.gather(*runs, *self.peer.tasks, return_exceptions=True)
            await self.stop()


@pytest.fixture(params=["memory", "amqtt", "mosquitto"])
async def lab(request: pytest.FixtureRequest, start_mosquitto: Start) -> AsyncIterator[Lab]:
    if request.param == "memory":
        broker = MemoryBroker(latency_s=lambda: 0.001)

        async def stop() -> None:
            broker.stop()

        made = Lab(lambda name, clock: MemoryBus(broker, name, clock), stop)
    else:
        if request.param == "amqtt":
            embedded = EmbeddedBroker()
            url, kill = await embedded.start(), embedded.close
        else:
            url, kill = await start_mosquitto()
        made = Lab(lambda name, clock: MqttBus(url, name, clock, Draws(1)), kill)
    async with made.running():
        yield made


async def test_ask_is_done_and_answered(lab: Lab) -> None:
    granted = await lab.peer.asks.ask(CLAIM, within_s=5)
    assert granted == TransferGranted(within_s=5.0)
    ((by, asked),) = lab.claims
    assert (by.host, by.boot, asked) == ("h0", "b1", CLAIM)
    assert 4.5 < by.by_s - asyncio.get_running_loop().time() < 5


async def test_ask_that_comes_twice_is_done_once_and_answered_alike(lab: Lab) -> None:
    answer = await lab.peer.send(lab.peer.ask("a1"), times=3)
    assert (answer.outcome, len(lab.claims)) == ("done", 1)
    assert {(one.outcome, one.id) for one in lab.peer.answers} == {("done", "a1")}


async def test_late_ask_is_expired_and_not_done(lab: Lab) -> None:
    answer = await lab.peer.send(lab.peer.ask("a1", left_s=-0.1))
    assert (answer.outcome, "after its expiry" in answer.why, lab.claims) == ("expired", True, [])


async def test_ask_of_another_boot_is_expired_and_not_done(lab: Lab) -> None:
    answer = await lab.peer.send(lab.peer.ask("a1", boot="b0"))
    assert (answer.outcome, answer.boot, lab.claims) == ("expired", "b0", [])


async def test_ask_for_a_far_time_is_expired_since_a_clock_was_stepped(lab: Lab) -> None:
    answer = await lab.peer.send(lab.peer.ask("a1", left_s=3600))
    assert (answer.outcome, lab.claims) == ("expired", [])


async def test_unknown_verb_and_wrong_arguments_are_refused(lab: Lab) -> None:
    assert "claim-transfer" in (await lab.peer.send(lab.peer.ask("a1", verb="dance"))).why
    wrong = msgspec.structs.replace(lab.peer.ask("a2"), arguments={"transfer": 7})
    answer = await lab.peer.send(wrong)
    assert (answer.outcome, lab.claims) == ("refused", [])


async def test_asks_over_the_rate_are_not_done_and_what_was_answered_is_answered_again_all_the_same(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await lab.peer.send(lab.peer.ask("a1"))
    monkeypatch.setattr(lab.gateway._hosts["h0"].allowance, "ask", lambda: False)
    over = await lab.peer.send(lab.peer.ask("a2"))
    assert (over.outcome, "Ask again in a second" in over.why, len(lab.claims)) == ("expired", True, 1)
    again = await lab.peer.send(lab.peer.ask("a1"))
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


async def test_verb_that_this_daemon_does_not_serve_is_refused(lab: Lab) -> None:
    with pytest.raises(RefusedError, match="this daemon does not know it"):
        await lab.peer.asks.ask(EndTransfers(transfers=["t1"]), within_s=5)
    lab.gateway.asks.serve(EndTransfers, _ended)
    assert await lab.peer.asks.ask(EndTransfers(transfers=["t1"]), within_s=5) == TransfersEnded()
    assert not [one for one in lab.documents if isinstance(one.fact, HostGarbage)]


async def _ended(by: AskedBy, asked: EndTransfers) -> TransfersEnded:
    return TransfersEnded()
