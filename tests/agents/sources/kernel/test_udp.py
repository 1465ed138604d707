"""Datagrams through real interfaces of a twin rack."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from ipaddress import IPv4Address, IPv4Interface

import pytest

from hwd.twin.kernel import Carrier, Crossbar, HostNetwork, Keeper, Light, messages
from hwd.twin.kernel.messages import requests_to
from hwd_agents.sources.kernel.udp import Datagrams, DatagramSource, InterfaceDatagrams
from hwd_drivers.core.clock import Clock, ShiftedClock, SystemClock

pytestmark = pytest.mark.kernel

WITHIN_S = 20.0
IPS = {"h0": IPv4Address("10.1.0.1"), "h1": IPv4Address("10.1.0.2")}
OTHER = {"h0": "h1", "h1": "h0"}
UntilUp = Callable[..., Awaitable[None]]


class Wire:
    """h0.eth0 and h1.eth0 lit both ways."""

    def __init__(self, keeper: Keeper, crossbar: Crossbar) -> None:
        self.keeper = keeper
        self.crossbar = crossbar
        for host in IPS:
            crossbar.plug(host, host=host, interface="eth0")
        for host in IPS:
            self.configure(host)
        self.light()

    def configure(self, host: str) -> None:
        network = HostNetwork(self.keeper, host)
        network.prepare()
        network.add_address(self.crossbar.plugs[host], IPv4Interface(IPS[host]))
        other = OTHER[host]
        network.know(self.crossbar.plugs[host], {IPS[other]: self.crossbar.plugs[other].address})
        network.route({IPS[other]: (self.crossbar.plugs[host], None)})
        network.close()

    def light(self) -> None:
        lights = [Light(from_port=host, to_ports=(OTHER[host],)) for host in IPS]
        self.crossbar.apply([*lights, *(Carrier(port=host, up=True) for host in IPS)])


class Inbox(asyncio.Queue[tuple[bytes, tuple[str, int], int]]):
    """What one port was given."""

    def take(self, payload: bytes, sender: tuple[str, int], at_ns: int) -> None:
        self.put_nowait((payload, sender, at_ns))

    async def next(self) -> tuple[bytes, tuple[str, int], int]:
        async with asyncio.timeout(WITHIN_S):
            return await self.get()


class Ports:
    """An open port on each host."""

    def __init__(self) -> None:
        self.inboxes = {host: Inbox() for host in IPS}
        self.ports: dict[str, Datagrams] = {}

    async def open(self, keeper: Keeper, clock: Clock) -> None:
        for host, ip in IPS.items():
            source: DatagramSource = InterfaceDatagrams(keeper.sockets(host), clock)
            self.ports[host] = await source.open("eth0", str(ip), 0, self.inboxes[host].take)

    def send(self, host: str, payload: bytes) -> bool:
        other = OTHER[host]
        return self.ports[host].send(payload, (str(IPS[other]), self.ports[other].port))

    def close(self) -> None:
        for port in self.ports.values():
            port.close()


@pytest.fixture
async def wire(keeper: Keeper, crossbar: Crossbar, until_up: UntilUp) -> Wire:
    wire = Wire(keeper, crossbar)
    await until_up("h0", "h1")
    return wire


@pytest.fixture
async def ports(wire: Wire, keeper: Keeper, clock: SystemClock) -> AsyncIterator[Ports]:
    ports = Ports()
    await ports.open(keeper, clock)
    yield ports
    ports.close()


async def test_datagrams_arrive_in_order_with_sender_and_the_kernels_stamp(ports: Ports, clock: SystemClock) -> None:
    before_ns = clock.monotonic_ns()
    assert ports.send("h0", b"ping")
    until_ns = clock.monotonic_ns() + 20_000_000
    while clock.monotonic_ns() < until_ns:  # the loop is held up between its coming and the callback
        continue
    payload, sender, at_ns = await ports.inboxes["h1"].next()
    assert (payload, sender) == (b"ping", (str(IPS["h0"]), ports.ports["h0"].port))
    slack_ns = 50_000  # of the conversion from the wall clock
    assert before_ns - slack_ns <= at_ns < until_ns - 5_000_000
    sent = [str(n).encode() for n in range(150)]
    assert all(ports.send("h0", payload) for payload in sent)
    assert [(await ports.inboxes["h1"].next())[0] for _ in sent] == sent
    ports.ports["h0"].close()
    assert not ports.send("h0", b"late")
    assert not ports.ports["h0"].reopen()
    assert ports.ports["h0"].last_failure == "eth0: the port is closed"


async def test_stamp_is_moved_with_the_clock_of_the_host(wire: Wire, keeper: Keeper, clock: SystemClock) -> None:
    shifted = ShiftedClock(clock, offset_s=-500.0, drift_ppm=50)
    ports = Ports()
    await ports.open(keeper, shifted)
    before_ns = shifted.monotonic_ns()
    assert ports.send("h0", b"ping")
    _payload, _sender, at_ns = await ports.inboxes["h1"].next()
    assert abs(at_ns - before_ns) < 1_000_000_000
    ports.close()


async def test_datagram_by_another_interface_is_not_taken(
    wire: Wire, ports: Ports, keeper: Keeper, clock: SystemClock, until_up: UntilUp
) -> None:
    """To the same address and port, but in by eth1."""
    for host in IPS:
        wire.crossbar.plug(f"{host}.1", host=host, interface="eth1")
    wire.crossbar.apply([Light(from_port="h0.1", to_ports=("h1.1",)), Carrier(port="h0.1", up=True)])
    wire.crossbar.carrier("h1.1", True)
    await until_up("h0.1", "h1.1")
    network = HostNetwork(keeper, "h0")
    network.add_address(wire.crossbar.plugs["h0.1"], IPv4Interface("10.1.0.3/32"))
    network.know(wire.crossbar.plugs["h0.1"], {IPS["h1"]: wire.crossbar.plugs["h1.1"].address})
    network.route({IPS["h1"]: (wire.crossbar.plugs["h0.1"], None)})
    network.close()
    inbox = Inbox()
    beside = await InterfaceDatagrams(keeper.sockets("h1"), clock).open(
        "eth1", "0.0.0.0", ports.ports["h1"].port, inbox.take
    )
    other = await InterfaceDatagrams(keeper.sockets("h0"), clock).open("eth1", "10.1.0.3", 0, inbox.take)
    for _ in range(2):
        assert other.send(b"by eth1", (str(IPS["h1"]), beside.port))
    assert (await inbox.next())[0] == b"by eth1"
    assert ports.send("h0", b"by eth0")
    assert (await ports.inboxes["h1"].next())[0] == b"by eth0"
    assert ports.inboxes["h1"].empty()
    beside.close()
    other.close()
    with pytest.raises(OSError, match="No such device"):
        await InterfaceDatagrams(keeper.sockets("h0"), clock).open("eth9", "10.1.0.1", 0, inbox.take)


async def test_interface_that_is_off_says_why_and_works_when_it_is_back(
    wire: Wire, ports: Ports, keeper: Keeper, until_up: UntilUp
) -> None:
    kernel = requests_to(keeper, "h0")
    index = wire.crossbar.plugs["h0"].ifindex
    kernel.do([messages.set_up(index, up=False, says="off")])
    assert not ports.send("h0", b"lost")
    assert ports.ports["h0"].last_failure.startswith(f"eth0: cannot send to {IPS['h1']}:")
    kernel.do([messages.set_up(index, up=True, says="on")])
    kernel.close()
    wire.configure("h0")
    await until_up("h0")
    assert ports.send("h0", b"again")
    assert (await ports.inboxes["h1"].next())[0] == b"again"


async def test_both_follow_their_interface_when_it_is_made_anew_and_the_receiver_when_told(
    wire: Wire, ports: Ports, until_up: UntilUp
) -> None:
    port = ports.ports["h0"].port
    for host in IPS:
        wire.crossbar.unplug(host)
    assert not ports.send("h0", b"lost")
    assert ports.ports["h0"].last_failure == f"eth0: cannot bind {IPS['h0']}:{port}: No such device"
    assert not ports.ports["h1"].reopen()
    assert ports.ports["h1"].last_failure.startswith(f"eth0: cannot bind {IPS['h1']}:")
    for host in IPS:
        wire.crossbar.plug(host, host=host, interface="eth0")
    for host in IPS:
        wire.configure(host)
    wire.light()
    assert ports.ports["h1"].reopen()
    await until_up("h0", "h1")
    assert ports.send("h0", b"again")
    assert (await ports.inboxes["h1"].next())[:2] == (b"again", (str(IPS["h0"]), port))
