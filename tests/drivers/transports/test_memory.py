"""A memory net cuts, delays and splits, and closes the ends of a killed node."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.transports.memory import Cut, MemoryNet
from hwd_drivers.twins.nodes import Nodes
from hwd_drivers.twins.virtual_time import run_virtual

from ..parts import Recorder

pytestmark = pytest.mark.usefixtures("virtual_time")


class Ends:
    def __init__(self, near: Recorder, far: Recorder) -> None:
        self.near = near
        self.far = far


@asynccontextmanager
async def connected(net: MemoryNet) -> AsyncIterator[Ends]:
    made: list[Recorder] = []

    def accept() -> Recorder:
        made.append(Recorder())
        return made[-1]

    listener = await net.listen(accept, "mem:ocs1")
    _, near = await net.connect(Recorder, "mem:ocs1")
    yield Ends(near, made[0])
    near.transport.abort()
    made[0].transport.abort()
    await near.lost()
    await made[0].lost()
    await listener.close()


@given(writes=st.lists(st.binary(min_size=1, max_size=20), max_size=8), chunk_bytes=st.integers(1, 24))
def test_chunks_are_cut_to_size_and_carry_the_same_bytes(writes: list[bytes], chunk_bytes: int) -> None:
    async def main() -> None:
        async with connected(MemoryNet(chunk_bytes=chunk_bytes)) as ends:
            for data in writes:
                ends.near.transport.write(data)
            ends.near.transport.close()
            await ends.far.lost()
            chunks = [each for each in ends.far.told if isinstance(each, bytes)]
            assert b"".join(chunks) == b"".join(writes)
            assert all(1 <= len(chunk) <= chunk_bytes for chunk in chunks)

    run_virtual(main())


async def test_latency_is_one_way_and_exact_and_a_cut_of_other_addresses_is_none_of_this_one() -> None:
    loop, net = asyncio.get_running_loop(), MemoryNet(latency_s=0.25)
    async with connected(net) as ends:
        net.cut("mem:ocs2")
        net.cut("mem:ocs3", Cut.SILENT)
        assert loop.time() == 0.5  # a connection takes a round trip
        ends.near.transport.write(b"one")
        await asyncio.sleep(0.125)
        ends.near.transport.write(b"two")
        ends.near.transport.close()
        await ends.far.lost()
        assert ends.far.told == ["made", b"one", b"two", "eof", "lost"]
        assert ends.far.at_s == [0.5, 0.75, 0.875, 0.875, 0.875]


async def test_reset_breaks_both_ends_loses_what_was_in_flight_and_refuses_until_healed() -> None:
    net = MemoryNet(latency_s=0.1)
    async with connected(net) as ends:
        ends.near.transport.write(b"lost")
        net.cut("mem:ocs1")
        assert isinstance(await ends.near.lost(), ConnectionResetError)
        assert isinstance(await ends.far.lost(), ConnectionResetError)
        assert ends.far.told == ["made", "lost"]
        with pytest.raises(ConnectionRefusedError, match="mem:ocs1: nothing listens there, or the network is cut"):
            await net.connect(Recorder, "mem:ocs1")
        net.heal("mem:ocs1")
        transport, again = await net.connect(Recorder, "mem:ocs1")
        transport.close()
        await again.lost()


async def test_reset_while_connecting_is_an_error_of_the_connect_also_after_a_silent_cut() -> None:
    net = MemoryNet()
    listener = await net.listen(Recorder, "mem:ocs1")
    asyncio.get_running_loop().call_soon(net.cut, "mem:ocs1")
    with pytest.raises(ConnectionResetError, match="mem:ocs1: reset while connecting"):
        await asyncio.create_task(_connect_after_one_turn(net))
    await listener.close()
    net = MemoryNet()
    net.cut("mem:ocs1", Cut.SILENT)
    connecting = asyncio.create_task(net.connect(Recorder, "mem:ocs1"))
    await asyncio.sleep(1)
    net.cut("mem:ocs1", Cut.RESET)
    with pytest.raises(ConnectionRefusedError):
        await connecting


async def _connect_after_one_turn(net: MemoryNet) -> None:
    # The cut is scheduled first and runs between the making of the ends and their start.
    loop = asyncio.get_running_loop()
    net.heal("mem:ocs1")
    loop.call_soon(net.cut, "mem:ocs1")
    await net.connect(Recorder, "mem:ocs1")


async def test_silent_cut_holds_bytes_ends_and_connects_until_healed() -> None:
    net = MemoryNet()
    async with connected(net) as ends:
        net.cut("mem:ocs1", Cut.SILENT)
        ends.near.transport.write(b"held")
        ends.near.transport.close()
        connecting = asyncio.create_task(net.connect(Recorder, "mem:ocs1"))
        await asyncio.sleep(3600)
        assert ends.far.told == ["made"]
        assert not connecting.done()
        net.heal("mem:ocs1")
        await ends.far.lost()
        assert ends.far.told == ["made", b"held", "eof", "lost"]
        transport, again = await connecting
        transport.close()
        await again.lost()


async def test_address_is_listened_to_once_and_a_net_that_cannot_be_is_refused() -> None:
    for wrong in ({"latency_s": -1.0}, {"chunk_bytes": 0}):
        with pytest.raises(ValueError, match="Use 0 or more, and 1 or more"):
            MemoryNet(**wrong)
    net = MemoryNet()
    listener = await net.listen(Recorder, "mem:ocs1")
    with pytest.raises(OSError, match="mem:ocs1: is in use"):
        await net.listen(Recorder, "mem:ocs1")
    await listener.close()
    await (await net.listen(Recorder, "mem:ocs1")).close()


async def test_cancelled_connect_leaves_no_open_end() -> None:
    net = MemoryNet()
    made: list[Recorder] = []

    def accept() -> Recorder:
        made.append(Recorder())
        return made[-1]

    listener = await net.listen(accept, "mem:ocs1")
    connecting = asyncio.create_task(net.connect(Recorder, "mem:ocs1"))
    await asyncio.sleep(0)
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    await asyncio.wait_for(made[0].lost(), 1)
    await listener.close()


async def test_peers_of_a_killed_node_get_bytes_in_flight_then_the_end() -> None:
    nodes = Nodes()
    net = MemoryNet(nodes=nodes, latency_s=0.1)
    served: list[Recorder] = []
    await nodes.run_in_node("daemon", _serve(net, served))
    transport, near = await net.connect(Recorder, "mem:daemon")
    transport.write(b"ping")
    await asyncio.sleep(0.15)
    nodes.kill("daemon")  # the echo is on its way
    assert await near.lost() is None
    assert near.told == ["made", b"ping", "eof", "lost"]
    assert served[0].told == ["made", b"ping"]
    with pytest.raises(ConnectionRefusedError):
        await net.connect(Recorder, "mem:daemon")


async def test_listener_sees_the_end_of_killed_clients() -> None:
    nodes = Nodes()
    net = MemoryNet(nodes=nodes)
    served: list[Recorder] = []
    listener = await net.listen(_into(served), "mem:broker")
    _, agent = await nodes.run_in_node("agent", net.connect(Recorder, "mem:broker"))
    _, other = await nodes.run_in_node("other", net.connect(Recorder, "mem:broker"))
    nodes.kill("agent")
    await served[0].lost()
    assert served[0].told == ["made", "eof", "lost"]
    assert agent.told == ["made"]
    assert not other.transport.is_closing()
    other.transport.close()
    await served[1].lost()
    await listener.close()


async def test_restarted_node_listens_at_its_old_address() -> None:
    nodes = Nodes()
    net = MemoryNet(nodes=nodes)
    for life in range(3):
        served: list[Recorder] = []
        await nodes.run_in_node("daemon", _serve(net, served))
        transport, near = await net.connect(Recorder, "mem:daemon")
        transport.write(b"%d" % life)
        await asyncio.sleep(1)
        assert near.received == b"%d" % life
        nodes.kill("daemon")
        await near.lost()


async def _serve(net: MemoryNet, served: list[Recorder]) -> None:
    await net.listen(_into(served, echo=True), "mem:daemon")


def _into(served: list[Recorder], *, echo: bool = False) -> Callable[[], Recorder]:
    def accept() -> Recorder:
        served.append(Recorder(echo=echo))
        return served[-1]

    return accept
