"""Light and carrier on real veth pairs and real redirects."""

import asyncio
import errno
import json
import os
import socket
import subprocess
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from ipaddress import IPv4Address, IPv4Interface
from typing import Any

import pytest

from hwd.twin.kernel import SWITCH, Carrier, Crossbar, HostNetwork, Keeper, Light, Plug, Privilege, messages
from hwd.twin.kernel.messages import requests_to
from hwd_agents.sources.kernel.netlink_requests import KernelRefusal
from hwd_agents.sources.kernel.rtnetlink import RtnetlinkLinks
from hwd_agents.sources.link_source import LinkReading
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import ConfigError

pytestmark = pytest.mark.kernel

WITHIN_S = 20.0
IPS = {"a": "10.1.0.1", "b": "10.1.0.2", "c": "10.1.0.3"}
HOSTS = {"a": "h0", "b": "h1", "c": "h1"}
SHARED_IP = IPv4Address("10.1.1.1")
"""Address of both b and c, so that a datagram to it shows where the light went."""
PORT = 7000
UntilUp = Callable[..., Awaitable[None]]


class Wires:
    """Three NIC ports, a of h0, b and c of h1, all with carrier, and a raw end in each."""

    def __init__(self, keeper: Keeper, crossbar: Crossbar) -> None:
        self.crossbar = crossbar
        networks = {host: HostNetwork(keeper, host) for host in ("h0", "h1")}
        for network in networks.values():
            network.prepare()
        self.ends = {}
        same = "02:00:00:00:00:01"
        for port, ip in IPS.items():
            address = "" if port == "a" else same
            plug = crossbar.plug(port, host=HOSTS[port], interface=port, address=address)
            networks[plug.host].add_address(plug, IPv4Interface(f"{ip}/32"))
            if port != "a":
                networks[plug.host].add_address(plug, IPv4Interface(f"{SHARED_IP}/32"))
                networks[plug.host].know(plug, {IPv4Address(IPS["a"]): crossbar.plugs["a"].address})
                networks[plug.host].route({IPv4Address(IPS["a"]): (plug, None)})
            end = keeper.socket(plug.host, socket.AF_INET, socket.SOCK_DGRAM)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, port.encode())
            end.bind(("0.0.0.0", PORT))
            self.ends[port] = end
        others = (IPv4Address(IPS["b"]), IPv4Address(IPS["c"]), SHARED_IP)
        networks["h0"].know(crossbar.plugs["a"], dict.fromkeys(others, same))
        networks["h0"].route(dict.fromkeys(others, (crossbar.plugs["a"], None)))
        for network in networks.values():
            network.close()
        crossbar.apply([Carrier(port=port, up=True) for port in IPS])

    def send(self, port: str, ip: str = str(SHARED_IP)) -> None:
        self.ends[port].sendto(b"light", (ip, PORT))

    def arrived(self) -> dict[str, int]:
        """What each end got since the last call; delivery is done when send returns, or by the softirq right after."""
        return {port: count for port, end in self.ends.items() if (count := drain(end))}


def drain(end: socket.socket) -> int:
    count = 0
    while True:
        try:
            end.recv(64)
        except BlockingIOError:
            return count
        count += 1


@pytest.fixture
async def wires(keeper: Keeper, crossbar: Crossbar, until_up: UntilUp) -> AsyncIterator[Wires]:
    wires = Wires(keeper, crossbar)
    await until_up(*IPS)
    yield wires
    for end in wires.ends.values():
        end.close()


async def wait_for(wires: Wires, port: str) -> dict[str, int]:
    """Wait until `port` has something; what has arrived anywhere by then."""
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()
    loop.add_reader(wires.ends[port], arrived.set)
    try:
        async with asyncio.timeout(WITHIN_S):
            await arrived.wait()
    finally:
        loop.remove_reader(wires.ends[port])
    return wires.arrived()


async def test_dark_port_reaches_nobody_and_light_goes_one_way_in_place_of_the_old_and_where_it_is_split(
    wires: Wires, until_up: UntilUp
) -> None:
    wires.send("a")
    wires.crossbar.light("a", "b")
    wires.crossbar.darken("a")
    wires.crossbar.darken("a")  # dark already: no error
    wires.send("a")
    wires.crossbar.light("a", "c")
    wires.send("a")
    assert await wait_for(wires, "c") == {"c": 1}
    wires.crossbar.apply([Light(from_port="a", to_ports=("b",)), Carrier(port="b", up=False)])
    wires.send("a")
    wires.crossbar.carrier("b", True)
    await until_up("b")
    wires.send("a")
    assert await wait_for(wires, "b") == {"b": 1}
    wires.crossbar.light("a", "b")
    wires.send("b", IPS["a"])
    wires.send("a")
    assert await wait_for(wires, "b") == {"b": 1}
    wires.crossbar.apply([Light(from_port="a", to_ports=("b",)), Light(from_port="c", to_ports=("a",))])
    wires.send("a")
    assert await wait_for(wires, "b") == {"b": 1}
    wires.send("c", IPS["a"])
    assert await wait_for(wires, "a") == {"a": 1}
    wires.crossbar.light("a", "b")
    wires.crossbar.light("a", "c")
    wires.send("a")
    assert await wait_for(wires, "c") == {"c": 1}
    wires.crossbar.apply([Light(from_port="a", to_ports=("b", "c"))])
    wires.send("a")
    assert await wait_for(wires, "c") == {"b": 1, "c": 1}


async def test_replacing_light_loses_nothing_and_doubles_nothing_and_an_unplugged_port_takes_its_own_with_it(
    wires: Wires,
) -> None:
    """One thread sends without pause, 64 ahead at most, while the light goes to and fro between b and c."""
    total, ahead = 4000, threading.Semaphore(64)
    wires.crossbar.light("a", "b")

    def send_all() -> None:
        for _ in range(total):
            if not ahead.acquire(timeout=2):
                return  # 64 were lost
            wires.send("a")

    sender = threading.Thread(target=send_all)
    sender.start()
    counts = {"b": 0, "c": 0}
    while sender.is_alive():
        for port in ("c", "b"):
            wires.crossbar.light("a", port)
            for where, count in wires.arrived().items():
                counts[where] += count
                ahead.release(count)
    sender.join()
    for where, count in wires.arrived().items():
        counts[where] += count
    assert counts["b"] + counts["c"] == total
    assert min(counts.values()) > total // 20
    wires.crossbar.apply([Light(from_port="a", to_ports=("b", "c"))])
    before = wires.crossbar.plugs["b"]
    wires.crossbar.unplug("b")
    wires.send("a")
    assert await wait_for(wires, "c") == {"c": 1}
    after = wires.crossbar.plug("b", host="h1", interface="b")
    assert after.ifindex != before.ifindex
    assert after.address != before.address == "02:00:00:00:00:01"


async def test_bracket_holds_the_change_of_carrier(keeper: Keeper, crossbar: Crossbar, clock: SystemClock) -> None:
    crossbar.plug("a", host="h0", interface="eth0")
    seen: asyncio.Queue[LinkReading] = asyncio.Queue()
    links = RtnetlinkLinks(keeper.sockets("h0"), clock)
    await links.open(seen.put_nowait)
    for up in (True, False):
        started_ns = clock.monotonic_ns()
        bracket = crossbar.carrier("a", up)
        assert started_ns <= bracket.before_ns < bracket.after_ns <= clock.monotonic_ns()
        async with asyncio.timeout(WITHIN_S):
            while (reading := await seen.get()).interface != "eth0" or reading.carrier is not up:
                continue
        assert bracket.before_ns < reading.at_ns
    await links.close()


async def test_many_changes_are_all_done_and_a_host_without_carrier_keeps_its_address_routes_and_neighbours(
    wires: Wires, until_up: UntilUp
) -> None:
    wires.crossbar.light("a", "b")
    for up in (False, True):
        wires.crossbar.apply([Carrier(port=port, up=up) for port in IPS])
    await until_up(*IPS)
    wires.send("a")
    assert await wait_for(wires, "b") == {"b": 1}
    # More than fit in one call.
    to_and_fro = [Light(from_port="a", to_ports=(port,)) for port in ("b", "c")]
    wires.crossbar.apply([*to_and_fro * 100, Light(from_port="b", to_ports=("a",))])
    wires.send("a")
    assert await wait_for(wires, "c") == {"c": 1}
    wires.send("b", IPS["a"])
    assert await wait_for(wires, "a") == {"a": 1}


def test_ends_of_a_pair_never_have_the_same_index_and_the_address_of_a_port_is_always_its_own(
    crossbar: Crossbar,
) -> None:
    first, second = (crossbar.plug(f"h0.eth{n}", host="h0", interface=f"eth{n}") for n in range(2))
    assert first.address != second.address
    crossbar.unplug("h0.eth0")
    assert crossbar.plug("h0.eth0", host="h0", interface="eth0").address == first.address
    plugs: list[Plug] = [crossbar.plug(f"p{n}", host="h1", interface=f"eth{n}") for n in range(12)]
    assert not {plug.ifindex for plug in plugs} & {plug.fibre_ifindex for plug in plugs}


def test_unknown_port_and_what_the_kernel_or_no_interface_takes_are_refused_by_name_and_nothing_is_done(
    crossbar: Crossbar,
) -> None:
    crossbar.plug("a", host="h0", interface="eth0")
    with pytest.raises(ConfigError, match="zz: no such port in this crossbar"):
        crossbar.apply([Carrier(port="a", up=True), Light(from_port="zz", to_ports=())])
    with pytest.raises(KernelRefusal, match="cannot make interface eth0 of h0 for b: File exists") as caught:
        crossbar.plug("b", host="h0", interface="eth0")
    assert caught.value.number == errno.EEXIST
    assert list(crossbar.plugs) == ["a"]
    with pytest.raises(ConfigError, match="1 to 15 bytes"):
        crossbar.plug("c", host="h0", interface="sixteen-bytes-ab")


def inside(keeper: Keeper, namespace: str, *command: str) -> Any:
    """What a command of iproute2 says in a namespace, which it judges independently."""
    descriptor = keeper.namespace(namespace)
    user = [f"--user=/proc/{keeper.pid}/ns/user", "--preserve-credentials"]
    enter = ["nsenter", *(user if keeper.privilege is Privilege.USER else []), f"--net=/proc/self/fd/{descriptor}"]
    try:
        done = subprocess.run([*enter, *command], pass_fds=[descriptor], capture_output=True, text=True, check=False)
    finally:
        os.close(descriptor)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def redirects(keeper: Keeper, fibre: str) -> list[tuple[str, str, str]]:
    """(what is done, the device, what then) of all that comes in at a fibre, as `tc` shows it."""
    filters = inside(keeper, SWITCH, "tc", "-j", "filter", "show", "dev", fibre, "ingress")
    actions = [one for each in filters for one in each.get("options", {}).get("actions", ())]
    return [(one["mirred_action"], one["to_dev"], one["control_action"]["type"]) for one in actions]


def test_tc_and_ip_show_where_the_light_goes_and_both_ends_of_a_pair_as_they_were_asked_for(
    keeper: Keeper, crossbar: Crossbar
) -> None:
    for number in range(1, 5):
        crossbar.plug(f"p{number}", host="h0", interface=f"eth{number}")
    assert redirects(keeper, "fibre1") == []
    crossbar.apply([Light(from_port="p1", to_ports=("p2", "p3", "p4")), Light(from_port="p2", to_ports=("p1",))])
    assert redirects(keeper, "fibre1") == [
        ("mirror", "fibre2", "pipe"),
        ("mirror", "fibre3", "pipe"),
        ("redirect", "fibre4", "stolen"),
    ]
    assert redirects(keeper, "fibre2") == [("redirect", "fibre1", "stolen")]
    crossbar.light("p1", "p3")
    assert redirects(keeper, "fibre1") == [("redirect", "fibre3", "stolen")]
    crossbar.darken("p1")
    assert redirects(keeper, "fibre1") == []
    assert redirects(keeper, "fibre2") == [("redirect", "fibre1", "stolen")]
    plug = crossbar.plug("a", host="h0", interface="eth0", address="02:00:00:00:00:07", mtu_bytes=9000)
    (near,) = inside(keeper, SWITCH, "ip", "-j", "-d", "link", "show", "fibre5")
    (far,) = inside(keeper, "h0", "ip", "-j", "-d", "link", "show", "eth0")
    assert (near["ifindex"], near["mtu"], near["linkinfo"]["info_kind"]) == (plug.fibre_ifindex, 65535, "veth")
    assert (far["ifindex"], far["mtu"], far["address"]) == (plug.ifindex, 9000, "02:00:00:00:00:07")
    assert ("UP" in near["flags"], "UP" in far["flags"]) == (False, True)


def test_first_refusal_of_many_changes_is_told_and_the_others_are_made(keeper: Keeper, crossbar: Crossbar) -> None:
    for number in range(1, 4):
        crossbar.plug(f"p{number}", host="h0", interface=f"eth{number}")
    with requests_to(keeper, SWITCH) as kernel:
        kernel.do([messages.delete_interface(crossbar.plugs["p2"].fibre_ifindex, says="remove it behind our back")])
    changes = [Carrier(port=f"p{number}", up=True) for number in range(1, 4)]
    with pytest.raises(KernelRefusal, match=r"^kernel: cannot give carrier to p2: No such device$") as caught:
        crossbar.apply([Light(from_port="p1", to_ports=("p3",)), *changes])
    assert caught.value.number == errno.ENODEV
    up = {link["ifname"] for link in inside(keeper, SWITCH, "ip", "-j", "link", "show") if "UP" in link["flags"]}
    assert up == {"fibre1", "fibre3"}
