import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import aiomqtt
import pytest

from hwd.bus.broker import EmbeddedBroker, UserRights
from hwd_agents.wire import client_id

from .test_attacks import PATIENCE_S, within

HOSTS = tuple(f"h{number}" for number in range(24))
LEAVES = ("ack", "command", "clock", "answer")

Connect = Callable[[str], AbstractAsyncContextManager[aiomqtt.Client]]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """To a broker that asks for each message and each subscription."""
    rights = UserRights(testbed="lab", hosts=frozenset(HOSTS))
    broker = EmbeddedBroker(users={"lab": "x", **{rights.user(host): "x" for host in HOSTS}}, rights=rights)
    host, _, port = (await broker.start()).removeprefix("mqtt://").rpartition(":")

    @asynccontextmanager
    async def client(name: str) -> AsyncIterator[aiomqtt.Client]:
        user, id = (rights.daemon, "daemon") if name == "lab" else (rights.user(name), client_id("lab", name))
        async with aiomqtt.Client(
            host, int(port), username=user, password="x", identifier=id, timeout=PATIENCE_S
        ) as one:
            yield one

    yield client
    await broker.close()


async def following(client: aiomqtt.Client) -> tuple[str, bytes, bool]:
    message = await within(anext(client.messages))
    return message.topic.value, message.payload, message.retain


async def test_all_clients_stay_that_connect_and_subscribe_at_one_time(connect: Connect) -> None:
    """Each is connected while others subscribe, and the broker has retained messages for some of their filters."""
    inside = asyncio.Barrier(len(HOSTS))

    async def be_host(name: str) -> None:
        async with connect(name) as client:
            await client.publish(f"hwd/1/lab/{name}/state", b"up", qos=1, retain=True)
            await client.subscribe([(f"hwd/1/lab/{name}/{leaf}", 1) for leaf in LEAVES])
            await inside.wait()
            await client.publish(f"hwd/1/lab/{name}/event", b"still here", qos=1)

    async with connect("lab") as daemon:
        await daemon.subscribe([("hwd/1/lab/+/state", 1), ("hwd/1/lab/+/event", 1)])
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as hosts:
            for name in HOSTS:
                hosts.create_task(be_host(name))
        events = set[str]()
        while len(events) < len(HOSTS):
            topic, _, _ = await following(daemon)
            events |= {topic} if topic.endswith("/event") else set()


async def test_every_message_reaches_its_subscribers_while_others_come_and_go(connect: Connect) -> None:
    async def come_and_go(name: str) -> None:
        for _ in range(10):
            async with connect(name) as client:
                await client.subscribe([(f"hwd/1/lab/{name}/{leaf}", 1) for leaf in LEAVES])

    sent = [b"%d" % number for number in range(300)]
    async with connect("lab") as daemon, connect("h0") as h0:
        await h0.subscribe("hwd/1/lab/h0/command", qos=1)
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as others:
            for name in HOSTS[1:9]:
                others.create_task(come_and_go(name))
            for payload in sent:
                await daemon.publish("hwd/1/lab/h0/command", payload, qos=1)
        assert [(await following(h0))[1] for _ in sent] == sent


async def test_retained_messages_go_to_a_subscriber_once_and_to_no_other(connect: Connect) -> None:
    async with connect("lab") as daemon, connect("h0") as h0:
        await h0.publish("hwd/1/lab/h0/state", b"up", qos=1, retain=True)
        await daemon.subscribe("hwd/1/lab/+/state", qos=1)
        assert await following(daemon) == ("hwd/1/lab/h0/state", b"up", True)
        async with connect("h1") as h1:  # amqtt sends it to whoever connects, for the filter of the daemon
            await h1.subscribe("hwd/1/lab/h1/command", qos=1)
            await daemon.publish("hwd/1/lab/h1/command", b"first", qos=1)
            assert await following(h1) == ("hwd/1/lab/h1/command", b"first", False)
        await h0.publish("hwd/1/lab/h0/state", b"", qos=1, retain=True)
        assert await following(daemon) == ("hwd/1/lab/h0/state", b"", False)
    async with connect("lab") as again:
        await again.subscribe("hwd/1/lab/+/state", qos=1)
        await again.publish("hwd/1/lab/h0/state", b"mark", qos=1)
        assert await following(again) == ("hwd/1/lab/h0/state", b"mark", False)
