"""Routes and neighbours of a twin host, by what gets through."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address, IPv4Interface

import pytest

from hwd.twin.kernel import Carrier, Crossbar, HostNetwork, Keeper, Light, Plug
from hwd_agents.sources.kernel.kernel_settings import KernelSettings
from hwd_agents.sources.setting_source import Setting
from hwd_drivers.core.offload import InlineOffload

pytestmark = pytest.mark.kernel

NEAR, FAR = IPv4Address("10.1.0.1"), IPv4Address("10.1.0.9")
WITHIN_S = 20.0
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2  # the socket module of Python 3.11 does not name them
UntilUp = Callable[..., Awaitable[None]]


def reach(network: HostNetwork, plug: Plug, ip: IPv4Address, address: str) -> None:
    network.know(plug, {ip: address})
    network.route({ip: (plug, None)})


class Hosts:
    """h0 with ports a and b, h1 with c and d; a is lit both ways with c, b with d."""

    def __init__(self, keeper: Keeper, crossbar: Crossbar) -> None:
        self.near, self.far = HostNetwork(keeper, "h0"), HostNetwork(keeper, "h1")
        for network in (self.near, self.far):
            network.prepare()
        self.plugs = {
            port: crossbar.plug(port, host=host, interface=port)
            for port, host in zip(("a", "b", "c", "d"), ("h0", "h0", "h1", "h1"), strict=True)
        }
        for port, ip in {"a": NEAR, "b": NEAR, "c": FAR, "d": FAR}.items():
            network = self.near if port in ("a", "b") else self.far
            network.add_address(self.plugs[port], IPv4Interface(ip))
        pairs = [("a", "c"), ("c", "a"), ("b", "d"), ("d", "b")]
        crossbar.apply([Light(from_port=source, to_ports=(target,)) for source, target in pairs])
        crossbar.apply([Carrier(port=port, up=True) for port in self.plugs])

    def join(self, near: str, far: str) -> None:
        reach(self.near, self.plugs[near], FAR, self.plugs[far].address)
        reach(self.far, self.plugs[far], NEAR, self.plugs[near].address)

    def close(self) -> None:
        self.near.close()
        self.far.close()


async def say_hello(keeper: Keeper) -> bytes:
    """Over TCP, from h0 to h1."""
    loop = asyncio.get_running_loop()
    with keeper.socket("h1", socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind((str(FAR), 0))
        listener.listen()
        with keeper.socket("h0", socket.AF_INET, socket.SOCK_STREAM) as ours:
            async with asyncio.timeout(WITHIN_S):
                await loop.sock_connect(ours, listener.getsockname())
                theirs, (ip, _port) = await loop.sock_accept(listener)
                with theirs:
                    assert ip == str(NEAR)
                    await loop.sock_sendall(ours, b"hello")
                    return await loop.sock_recv(theirs, 64)


async def test_neighbour_moves_to_another_port(keeper: Keeper, crossbar: Crossbar, until_up: UntilUp) -> None:
    hosts = Hosts(keeper, crossbar)
    await until_up("a", "b", "c", "d")
    hosts.join("a", "c")
    assert await say_hello(keeper) == b"hello"
    crossbar.apply([Light(from_port="a", to_ports=()), Light(from_port="c", to_ports=()), Carrier(port="a", up=False)])
    hosts.join("b", "d")
    assert await say_hello(keeper) == b"hello"
    hosts.close()


async def test_host_passes_packets_on_between_its_ports(keeper: Keeper, crossbar: Crossbar, until_up: UntilUp) -> None:
    """Rings need it: h1 sends to an address behind h0, in by one port and out by the other."""
    hosts = Hosts(keeper, crossbar)
    await until_up("a", "b", "c", "d")
    beyond = IPv4Address("10.9.9.9")
    reach(hosts.far, hosts.plugs["c"], beyond, hosts.plugs["a"].address)
    reach(hosts.near, hosts.plugs["b"], beyond, "02:00:00:00:00:99")
    with (
        keeper.socket("h0", socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as tap,
        keeper.socket("h1", socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        tap.bind(("b", 0))
        sender.bind((str(FAR), 0))
        sender.sendto(b"onward", (str(beyond), 7))
        frame = b""
        async with asyncio.timeout(WITHIN_S):
            while not frame.endswith(b"onward"):
                frame = await asyncio.get_running_loop().sock_recv(tap, 2048)
    assert frame[:6] == bytes.fromhex("020000000099")
    hosts.close()


async def test_long_packets_pass_when_both_ends_take_them(
    keeper: Keeper, crossbar: Crossbar, until_up: UntilUp
) -> None:
    """An MTU that the agent sets on a kernel twin holds on the wire.

    Fibres carry frames of any length; the far end drops frames that are too long for it.
    """
    hosts = Hosts(keeper, crossbar)
    await until_up("a", "b", "c", "d")
    hosts.join("a", "c")
    near, far = (KernelSettings(keeper.sockets(host), InlineOffload()) for host in ("h0", "h1"))
    with (
        keeper.socket("h0", socket.AF_INET, socket.SOCK_DGRAM) as sender,
        keeper.socket("h1", socket.AF_INET, socket.SOCK_DGRAM) as receiver,
    ):
        receiver.bind((str(FAR), 0))
        sender.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)  # no fragments
        with pytest.raises(OSError, match="Message too long"):
            sender.sendto(bytes(8000), receiver.getsockname())
        await near.write("a", Setting.MTU, 9000)
        sender.sendto(bytes(8000), receiver.getsockname())
        await far.write("c", Setting.MTU, 9000)
        sender.sendto(bytes(8001), receiver.getsockname())
        async with asyncio.timeout(WITHIN_S):
            data = await asyncio.get_running_loop().sock_recv(receiver, 9000)
    assert len(data) == 8001, "the one before it was too long for the far end"
    hosts.close()
