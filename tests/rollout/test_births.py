"""Births at a real broker: what it has kept, what comes, what is taken away; whether a daemon runs or not."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from hwd.bus.broker import EmbeddedBroker
from hwd.rollout import births as module
from hwd.rollout.births import Births
from hwd_agents.bus.mqtt import MqttBus
from hwd_agents.bus.protocol import Incoming
from hwd_agents.wire import Birth, HeldSetting, State, decode, encode, topic
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import DeadlineError, LinkError
from hwd_drivers.core.ids import Draws

from ..texts import birth_message

HELD = HeldSetting(run="k3v9", port="eth0", setting="mtu", value=4200, before=1500)


def birth(boot: str, *settings: HeldSetting) -> Birth:
    return birth_message(boot=boot, settings=list(settings))


class Agent:
    """The words of one, at a broker."""

    def __init__(self, url: str) -> None:
        self.heard: list[Incoming] = []
        self._bus = MqttBus(url, "h0", SystemClock(), Draws(1))
        self._bus.subscribe(topic("lab", "h0", "birth"), self.heard.append)
        self._up = asyncio.Event()
        self._bus.on_up(self._up.set)

    async def say(self, boot: str, *settings: HeldSetting) -> None:
        await self._up.wait()
        await self._bus.publish(
            topic("lab", "h0", "state"), encode(State(boot=boot, seq=1, state="up")), qos=1, retain=True
        )
        await self._bus.publish(topic("lab", "h0", "birth"), encode(birth(boot, *settings)), qos=1, retain=True)

    async def garble(self) -> None:
        await self._bus.publish(topic("lab", "h0", "birth"), b'{"type":"birth","v":7}', qos=1, retain=True)

    async def run(self) -> None:
        await self._bus.run()


@pytest.fixture
async def url() -> AsyncIterator[str]:
    broker = EmbeddedBroker()
    yield await broker.start()
    await broker.close()


@pytest.fixture
async def agent(url: str) -> AsyncIterator[Agent]:
    one = Agent(url)
    running = asyncio.create_task(one.run())
    yield one
    running.cancel()
    await asyncio.wait([running])


async def test_a_new_boot_is_awaited_and_the_previous_one_does_not_count(url: str, agent: Agent) -> None:
    await agent.say("first")
    async with Births.open("lab", url) as births:
        assert (births.boot("h0"), births.is_up("h0")) == ("first", True)
        assert (await births.born("h0", after=None, within_s=5)).boot == "first"
        with pytest.raises(DeadlineError, match=r"no birth of it reached mqtt://127.0.0.1:\d+ within 0.2 s"):
            await births.born("h0", after="first", within_s=0.2)
        waiting = asyncio.create_task(births.born("h0", after="first", within_s=20))
        await agent.say("second")
        assert (await waiting).boot == "second"


async def test_a_host_that_is_forgotten_leaves_nothing_and_who_listens_hears_that_its_settings_are_gone(
    url: str, agent: Agent
) -> None:
    await agent.say("first", HELD)
    async with Births.open("lab", url) as births:
        agent.heard.clear()
        await births.forget("h0")
    async with Births.open("lab", url) as later:
        assert (later.birth, later.state, later.is_up("h0")) == ({}, {}, False)
    first, last = agent.heard
    told = decode(first.payload)
    assert isinstance(told, Birth)
    assert (told.boot, told.settings, last.payload) == ("first", [], b"")


async def test_what_cannot_be_read_is_kept_with_why_and_no_broker_is_said_without_the_password(
    url: str, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    await agent.say("first")
    await agent.garble()
    async with Births.open("lab", url) as births:
        assert "h0" not in births.birth
        assert births.unreadable["h0"].startswith("not a message of version 1")
    monkeypatch.setattr(module, "CONNECT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(LinkError, match=r"broker mqtt://hwd@127.0.0.1:\d+: cannot be reached from here") as error:
        async with Births.open("lab", f"mqtt://hwd:geheim@127.0.0.1:{port}"):
            pass
    assert "geheim" not in str(error.value)
