"""Two boots that claim to be one host: the current one stays until it stops, is lost, or does not answer."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from hwd.bus.gateway import Gateway
from hwd.bus.host_view import HostView
from hwd.bus.rival import ANSWER_WITHIN_S
from hwd_agents.bus.memory import MemoryBroker, MemoryBus
from hwd_agents.bus.protocol import Incoming, Will
from hwd_agents.wire import Birth, ClockReply, ClockRequest, Event, Events, Inventory, State, decode, encode, topic
from hwd_drivers.core.documents import Document
from hwd_drivers.core.ids import SeededIds
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual

PATIENCE_S = 600.0


class Agent:
    """A boot of h0 that sends its birth at each connect, and answers clock requests if `answers`."""

    def __init__(self, world: "World", boot: str, *, answers: bool = True) -> None:
        self.boot = boot
        self.answers = answers
        self._world = world
        self._seq = 0
        lost = Will(topic=topic("lab", "h0", "state"), payload=encode(State(boot=boot, seq=1, state="lost")))
        self.bus = MemoryBus(world.broker, boot, world.clock, lost)
        self.bus.subscribe(topic("lab", "h0", "clock"), self._asked)
        self.bus.on_up(lambda: world.soon(self.be_born()))
        self._run = asyncio.create_task(self.bus.run())

    async def be_born(self) -> None:
        birth = Birth(
            boot=self.boot,
            seq=self._next(),
            host="h0",
            testbed="lab",
            version="0.1.0",
            at_ns=self._world.clock.monotonic_ns(),
            ports={},
            inventory=Inventory(),
            spool_oldest_seq=1,
            spool_next_seq=1,
            spool_lost=0,
        )
        await self.bus.publish(topic("lab", "h0", "birth"), encode(birth), qos=1, retain=True)
        await self.say("up")

    async def say(self, state: Any) -> None:
        message = State(boot=self.boot, seq=self._next(), state=state)
        await self.bus.publish(topic("lab", "h0", "state"), encode(message), qos=1, retain=True)

    async def hand_on(self, number: int, boot: str) -> None:
        """An event of an earlier boot, out of the spool."""
        event = Event(
            seq=number,
            at_ns=self._world.clock.monotonic_ns(),
            earliest_ns=0,
            kind="carrier",
            port="eth0",
            source="test",
            origin="twin",
            data={"carrier": True},
        )
        message = Events(boot=boot, seq=self._next(), events=[event], clock="clock of h0")
        await self.bus.publish(topic("lab", "h0", "event"), encode(message), qos=1)

    async def stop(self) -> None:
        self._run.cancel()
        await asyncio.gather(self._run, return_exceptions=True)

    def _asked(self, incoming: Incoming) -> None:
        request = decode(incoming.payload)
        if self.answers and isinstance(request, ClockRequest) and request.boot == self.boot:
            now_ns = self._world.clock.monotonic_ns()
            reply = ClockReply(
                boot=self.boot, seq=self._next(), id=request.id, t1_ns=request.t1_ns, t2_ns=now_ns, t3_ns=now_ns
            )
            self._world.soon(self.bus.publish(topic("lab", "h0", "reply"), encode(reply)))

    def _next(self) -> int:
        self._seq += 1
        return self._seq


class World:
    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock = VirtualClock(loop, wall_start_ns=0)
        self.broker = MemoryBroker(latency_s=lambda: 1e-4)
        self.documents: list[Document] = []
        self.agents: list[Agent] = []
        self._tasks: set[asyncio.Task[None]] = set()
        bus = MemoryBus(self.broker, "daemon", self.clock)
        self.gateway = Gateway(
            bus=bus,
            testbed="lab",
            hosts=("h0",),
            clock=self.clock,
            ids=SeededIds(1),
            sink=self.documents.append,
        )
        self._run = asyncio.create_task(self.gateway.run())

    async def close(self) -> None:
        for agent in self.agents:
            await agent.stop()
        self._run.cancel()
        await asyncio.gather(self._run, *self._tasks, return_exceptions=True)

    def soon(self, what: Awaitable[None]) -> None:
        task = asyncio.ensure_future(what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def agent(self, boot: str, *, answers: bool = True) -> Agent:
        """A connected agent that has sent its birth; the daemon takes it later."""
        self.agents.append(Agent(self, boot, answers=answers))
        await asyncio.sleep(0.1)
        return self.agents[-1]

    @property
    def h0(self) -> HostView:
        return self.gateway.hosts()["h0"]

    def of(self, kind: str) -> list[Mapping[str, Any]]:
        return [document.fact.to_data() for document in self.documents if document.kind == kind]

    async def lives(self, boot: str) -> float:
        """Wait until this boot is up; how long that took."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        async with asyncio.timeout(PATIENCE_S):
            while not (self.h0.boot == boot and self.h0.up):  # noqa: ASYNC110 - virtual time
                await asyncio.sleep(0.01)
        return loop.time() - began_s


def play(scenario: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        world = World()
        try:
            await scenario(world)
        finally:
            await world.close()

    run_virtual(main())


def test_a_forged_birth_message_does_not_replace_an_agent_that_answers_and_is_reported() -> None:
    async def scenario(world: World) -> None:
        await world.agent("real")
        await world.lives("real")
        forger = await world.agent("forged", answers=False)
        for _ in range(20):
            await forger.be_born()
            await asyncio.sleep(5)
        assert (world.h0.boot, world.h0.up, world.h0.rival) == ("real", True, "forged")
        assert world.h0.rival == "forged"
        assert world.of("host.down") == []
        await forger.say("down")
        await asyncio.sleep(1)
        assert world.h0.rival is None

    play(scenario)


def test_two_agents_that_both_answer_do_not_take_turns() -> None:
    async def scenario(world: World) -> None:
        first = await world.agent("first")
        await world.lives("first")
        await world.agent("second")
        await asyncio.sleep(100)
        assert (world.h0.boot, world.h0.up, world.h0.rival) == ("first", True, "second")
        await first.say("down")
        assert await world.lives("second") < 1, "the one that waited takes the place of one that said farewell"
        assert world.h0.rival is None

    play(scenario)


def test_an_agent_that_disconnected_or_was_lost_is_replaced_at_once() -> None:
    async def scenario(world: World) -> None:
        first = await world.agent("first")
        await world.lives("first")
        await first.say("down")
        await first.stop()
        await world.agent("second")
        assert await world.lives("second") < 0.1
        world.broker.cut("second")
        await world.agents[-1].stop()
        await asyncio.sleep(0.1)
        await world.agent("third")
        assert await world.lives("third") < 0.1

    play(scenario)


def test_an_agent_that_does_not_answer_is_followed_within_seconds() -> None:
    async def scenario(world: World) -> None:
        first = await world.agent("first")
        await world.lives("first")
        await asyncio.sleep(30)
        first.answers = False
        await world.agent("second")
        assert 2 < await world.lives("second") < 5

    play(scenario)


def test_an_agent_that_was_silent_for_a_while_comes_back_where_the_other_does_not_answer() -> None:
    async def scenario(world: World) -> None:
        real = await world.agent("real")
        await world.lives("real")
        real.answers = False
        await world.agent("forged", answers=False)
        await world.lives("forged")
        real.answers = True
        await real.be_born()
        assert await world.lives("real") < 5

    play(scenario)


def test_an_agent_whose_place_another_took_gets_it_back_when_that_one_ends() -> None:
    """Also where it had come back before that, and was refused as the other answered."""

    async def scenario(world: World) -> None:
        real = await world.agent("real")
        await world.lives("real")
        real.answers = False
        other = await world.agent("other")
        await world.lives("other")
        real.answers = True
        await real.be_born()
        await asyncio.sleep(20)
        assert (world.h0.boot, world.h0.rival) == ("other", "real")
        await other.say("down")
        assert await world.lives("real") < 5

    play(scenario)


def test_a_retained_forged_birth_message_does_not_win_after_a_reconnect_of_the_daemon() -> None:
    async def scenario(world: World) -> None:
        await world.agent("real")
        await world.lives("real")
        await world.agent("forged", answers=False)
        await asyncio.sleep(10)
        world.broker.cut("daemon")
        await asyncio.sleep(30)
        assert (world.h0.boot, world.h0.up) == ("real", True)

    play(scenario)


def test_repeated_birth_messages_neither_delay_the_next_agent_nor_replace_one_that_answers() -> None:
    async def scenario(world: World) -> None:
        first = await world.agent("first")
        await world.lives("first")
        await asyncio.sleep(30)
        second = await world.agent("second")

        async def insist() -> None:
            while True:
                await asyncio.sleep(0.2)
                await second.be_born()

        insisting = asyncio.create_task(insist())
        await asyncio.sleep(60)
        assert (world.h0.boot, world.h0.up) == ("first", True)
        first.answers = False
        assert 1 < await world.lives("second") < 12
        insisting.cancel()
        await asyncio.wait([insisting])

    play(scenario)


def test_events_of_a_dead_boot_that_the_next_one_hands_on_are_no_sign_of_its_life() -> None:
    """A killed agent and a restarted broker leave no will; the spool of the dead boot takes the next one a while."""

    async def scenario(world: World) -> None:
        first = await world.agent("first")
        await world.lives("first")
        await first.stop()
        second = await world.agent("second")
        came = asyncio.create_task(world.lives("second"))
        for number in range(1, 60):
            await second.hand_on(number, "first")
            await asyncio.sleep(0.5)
        assert await came < 2 * ANSWER_WITHIN_S
        assert [event["seq"] for event in world.of("host.event") if event["boot"] == "first"] == list(range(1, 60))

    play(scenario)
