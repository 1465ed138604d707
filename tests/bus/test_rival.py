"""Two boots that claim to be one host: the current one stays until it stops, is lost, or does not answer."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from hwd.bus.host_agent import HostAgent
from hwd.bus.rival import ANSWER_WITHIN_S
from hwd_agents.wire import State

from .world import PATIENCE_S, Peer, World


class Agent(Peer):
    """A boot of h0 that may say farewell."""

    async def farewell(self) -> None:
        await self.say("state", State(boot=self.boot, seq=self._next(), state="down"), qos=1, retain=True)


class Rivals(World):
    """A world with agents of h0, whose clocks are that of the daemon."""

    async def agent(self, boot: str, *, answers: bool = True) -> Agent:
        """A connected agent that has sent its birth; the daemon takes it later."""
        agent = Agent(self.broker, "h0", boot, self.clock)
        agent.answers_clock = answers
        self.peers.append(agent)
        agent.start()
        await asyncio.sleep(0.1)
        return agent

    async def living(self, boot: str) -> Agent:
        agent = await self.agent(boot)
        await self.lives(boot)
        return agent

    @property
    def h0(self) -> HostAgent:
        return self.gateway.hosts()["h0"]

    @property
    def rival(self) -> str | None:
        return self.gateway.status("h0", {}, skew="").rival

    async def lives(self, boot: str) -> float:
        """Wait until this boot is up; how long that took."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        async with asyncio.timeout(PATIENCE_S):
            while not (self.h0.boot == boot and self.h0.up):  # noqa: ASYNC110 - virtual time
                await asyncio.sleep(0.01)
        return loop.time() - began_s


@pytest.fixture
async def rivals(virtual_time: None) -> AsyncIterator[Rivals]:
    async with Rivals() as rivals:
        yield rivals


async def test_a_forged_birth_message_does_not_replace_an_agent_that_answers_and_is_reported(rivals: Rivals) -> None:
    await rivals.living("real")
    forger = await rivals.agent("forged", answers=False)
    for _ in range(20):
        await forger.be_born()
        await asyncio.sleep(5)
    assert (rivals.h0.boot, rivals.h0.up, rivals.rival) == ("real", True, "forged")
    assert rivals.of("host.down") == []
    await forger.farewell()
    await asyncio.sleep(1)
    assert rivals.rival is None


async def test_two_agents_that_both_answer_do_not_take_turns(rivals: Rivals) -> None:
    first = await rivals.living("first")
    await rivals.agent("second")
    await asyncio.sleep(100)
    assert (rivals.h0.boot, rivals.h0.up, rivals.rival) == ("first", True, "second")
    await first.farewell()
    assert await rivals.lives("second") < 1, "the one that waited takes the place of one that said farewell"
    assert rivals.rival is None


async def test_an_agent_that_disconnected_or_was_lost_is_replaced_at_once(rivals: Rivals) -> None:
    first = await rivals.living("first")
    await first.farewell()
    await first.stop()
    await rivals.agent("second")
    assert await rivals.lives("second") < 0.1
    rivals.broker.cut("h0 second")
    await rivals.peers[-1].stop()
    await asyncio.sleep(0.1)
    await rivals.agent("third")
    assert await rivals.lives("third") < 0.1


async def test_an_agent_that_does_not_answer_is_followed_and_comes_back_where_the_other_does_not_answer(
    rivals: Rivals,
) -> None:
    real = await rivals.living("real")
    await asyncio.sleep(30)
    real.answers_clock = False
    await rivals.agent("forged", answers=False)
    assert 2 < await rivals.lives("forged") < 5
    real.answers_clock = True
    await real.be_born()
    assert await rivals.lives("real") < 5


async def test_an_agent_whose_place_another_took_gets_it_back_when_that_one_ends(rivals: Rivals) -> None:
    """Also where it had come back before that, and was refused as the other answered."""
    real = await rivals.living("real")
    real.answers_clock = False
    other = await rivals.living("other")
    real.answers_clock = True
    await real.be_born()
    await asyncio.sleep(20)
    assert (rivals.h0.boot, rivals.rival) == ("other", "real")
    await other.farewell()
    assert await rivals.lives("real") < 5


async def test_a_retained_forged_birth_message_does_not_win_after_a_reconnect_of_the_daemon(rivals: Rivals) -> None:
    await rivals.living("real")
    await rivals.agent("forged", answers=False)
    await asyncio.sleep(10)
    rivals.broker.cut("daemon")
    await asyncio.sleep(30)
    assert (rivals.h0.boot, rivals.h0.up) == ("real", True)


async def test_repeated_birth_messages_neither_delay_the_next_agent_nor_replace_one_that_answers(
    rivals: Rivals,
) -> None:
    first = await rivals.living("first")
    await asyncio.sleep(30)
    second = await rivals.agent("second")

    async def insist() -> None:
        while True:
            await asyncio.sleep(0.2)
            await second.be_born()

    insisting = asyncio.create_task(insist())
    await asyncio.sleep(60)
    assert (rivals.h0.boot, rivals.h0.up) == ("first", True)
    first.answers_clock = False
    assert 1 < await rivals.lives("second") < 12
    insisting.cancel()
    await asyncio.wait([insisting])


async def test_events_of_a_dead_boot_that_the_next_one_hands_on_are_no_sign_of_its_life(rivals: Rivals) -> None:
    """A killed agent and a restarted broker leave no will; the spool of the dead boot takes the next one a while."""
    first = await rivals.living("first")
    await first.stop()
    second = await rivals.agent("second")
    came = asyncio.create_task(rivals.lives("second"))
    for _ in range(1, 60):
        await second.send(second.event(boot="first"), boot="first", clock="clock of h0")
        await asyncio.sleep(0.5)
    assert await came < 2 * ANSWER_WITHIN_S
    assert [event["seq"] for event in rivals.of("host.event") if event["boot"] == "first"] == list(range(1, 60))
