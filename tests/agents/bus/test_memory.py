"""What the memory bus alone can do: latency, duplicates, and clients of a node that dies."""

import asyncio

import pytest

from hwd_agents.bus.memory import MemoryBroker, MemoryBus
from hwd_agents.bus.protocol import Will
from hwd_drivers.core.ids import Draws
from hwd_drivers.twins.nodes import NodeKilled, Nodes
from hwd_drivers.twins.virtual_time import VirtualClock, run_virtual

from ...virtual_time import running_loop
from .conftest import running


async def test_qos1_message_comes_twice_where_that_is_asked_for(clock: VirtualClock) -> None:
    broker = MemoryBroker()
    broker.repeat_qos1 = True
    alice, bob = MemoryBus(broker, "alice", clock), MemoryBus(broker, "bob", clock)
    got: list[bytes] = []
    bob.subscribe("t", lambda incoming: got.append(incoming.payload))
    async with running(alice, bob):
        await alice.publish("t", b"once", qos=0)
        await alice.publish("t", b"twice", qos=1)
        await asyncio.sleep(1)
    assert got == [b"once", b"twice", b"twice"]


def test_latency_delays_each_way_and_never_reorders() -> None:
    async def main() -> list[tuple[bytes, int]]:
        clock = VirtualClock(running_loop(), wall_start_ns=0)
        delays = Draws(7).stream("delays")
        broker = MemoryBroker(latency_s=lambda: delays.choice([0.001, 0.1]))
        alice, bob = MemoryBus(broker, "alice", clock), MemoryBus(broker, "bob", clock)
        got: list[tuple[bytes, int]] = []
        bob.subscribe("t", lambda incoming: got.append((incoming.payload, incoming.at_ns)))
        async with running(alice, bob):
            for number in range(50):
                await alice.publish("t", b"%d" % number)
            await asyncio.sleep(1)
        return got

    got = run_virtual(main())
    assert [payload for payload, _ in got] == [b"%d" % number for number in range(50)]
    assert [at_ns for _, at_ns in got] == sorted(at_ns for _, at_ns in got)
    assert got == run_virtual(main())


async def test_dead_node_loses_its_connection_and_its_will_is_published(clock: VirtualClock) -> None:
    nodes = Nodes()
    broker = MemoryBroker(nodes=nodes)
    daemon = MemoryBus(broker, "daemon", clock)
    agent = MemoryBus(broker, "h0", clock, Will(topic="state", payload=b"lost"))
    got: list[bytes] = []
    daemon.subscribe("state", lambda incoming: got.append(incoming.payload))
    agents_up = asyncio.Event()
    agent.on_up(agents_up.set)
    async with running(daemon):
        life = asyncio.create_task(nodes.run_in_node("h0", agent.run()))
        await agents_up.wait()
        await daemon.publish("h0", b"never seen")
        nodes.kill("h0")
        await asyncio.sleep(10)
        assert (got, broker.clients()) == ([b"lost"], ("daemon",))
    with pytest.raises(NodeKilled):
        await life


async def test_newer_session_of_a_client_takes_over(clock: VirtualClock) -> None:
    broker = MemoryBroker()
    first, second = MemoryBus(broker, "same", clock), MemoryBus(broker, "same", clock)
    causes: list[str] = []
    first.on_down(causes.append)
    async with running(first), running(second):
        await asyncio.sleep(0.05)
    assert causes == ["the connection was cut"]
