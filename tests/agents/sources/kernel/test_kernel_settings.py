"""Settings of real interfaces in a namespace, judged by `ip` and by ethtool's ioctl."""

import array
import fcntl
import itertools
import json
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hwd.twin.kernel import Crossbar, Keeper
from hwd_agents.process.config import PortConfig
from hwd_agents.settings.port_settings import Settings
from hwd_agents.sources.kernel.kernel_settings import KernelSettings
from hwd_agents.sources.kernel.netlink_requests import KernelRefusal
from hwd_agents.sources.kernel.port_counters import KernelCounters
from hwd_agents.sources.kernel.sockets import HostSockets
from hwd_agents.sources.setting_source import Setting, holds, restored
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.disk import MemoryDisk
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import LinkError, RefusedError
from hwd_drivers.core.offload import InlineOffload

from ...namespace_ip import run_ip
from ..played_ethtool import PlayedEthtool

pytestmark = pytest.mark.kernel

Ip = Callable[..., Any]
SIOCETHTOOL, ETHTOOL_GSET = 0x8946, 0x1


@pytest.fixture
def ip(keeper: Keeper) -> Ip:
    """`ip` of h0, its answer read as JSON."""
    return lambda *arguments: json.loads(run_ip(keeper, "-j", *arguments) or "[]")


@pytest.fixture
def settings(keeper: Keeper, crossbar: Crossbar, ip: Ip) -> KernelSettings:
    """Of h0, whose eth0 and eth1 are up and have an address each."""
    for number in range(2):
        crossbar.plug(f"p{number}", host="h0", interface=f"eth{number}", mtu_bytes=4200)
        ip("address", "add", f"10.{number}.0.1/24", "dev", f"eth{number}")
    return KernelSettings(keeper.sockets("h0"), InlineOffload())


def everything(ip: Ip) -> dict[str, Any]:
    """What of h0 a setting may change, in the words of `ip`; without what changes by itself."""
    links = [(link["ifname"], link["mtu"]) for link in ip("link", "show")]
    addresses = [
        (link["ifname"], one["local"], one["prefixlen"]) for link in ip("address", "show") for one in link["addr_info"]
    ]
    neighbours = [
        (one["dev"], one["dst"], one.get("lladdr"), one["state"])
        for one in ip("neighbour", "show", "nud", "all")
        if not one["dst"].startswith("ff")  # groups that the kernel joins by itself
    ]
    routes = ip("-4", "route", "show", "table", "all")
    routes += [one for one in ip("-6", "route", "show") if not one["dst"].startswith("fe80")]
    return {"links": links, "addresses": addresses, "neighbours": sorted(neighbours), "routes": routes}


CHANGES: list[tuple[Setting, Json]] = [
    (Setting.MTU, 1500),
    (Setting.ADDRESS, "10.9.0.1/32"),
    (Setting.ADDRESS, "fd00::9/64"),
    (Setting.NEIGHBOUR, {"ip": "10.0.0.7", "mac": "02:00:00:00:00:07"}),
    (Setting.ROUTE, {"to": "10.7.0.0/16"}),
    (Setting.ROUTE, {"to": "10.7.0.0/16", "via": "10.0.0.7", "metric": 50}),
    (Setting.ROUTE, {"to": "fd07::/64"}),
    (Setting.ROUTE, {"to": "0.0.0.0/0", "via": "10.0.0.9"}),
]


async def test_setting_is_made_as_ip_shows_and_all_is_as_before_when_it_is_restored(
    settings: KernelSettings, ip: Ip
) -> None:
    before = everything(ip)
    for setting, value in CHANGES:
        state = await settings.read("eth0", setting, value)
        assert not holds(setting, value, state), (setting, value)
        await settings.write("eth0", setting, value)
        assert holds(setting, value, await settings.read("eth0", setting, value)), (setting, value)
        assert everything(ip) != before, (setting, value)
        await settings.restore("eth0", setting, value, state)
        assert everything(ip) == before, (setting, value)
        assert restored(setting, state, await settings.read("eth0", setting, value)), (setting, value)
    for setting, value in CHANGES:
        await settings.write("eth0", setting, value)
    (link,) = ip("link", "show", "eth0")
    assert link["mtu"] == 1500
    assert ("eth0", "10.9.0.1", 32) in everything(ip)["addresses"]
    (neighbour,) = ip("neighbour", "show", "10.0.0.7", "dev", "eth0")
    assert (neighbour["lladdr"], neighbour["state"]) == ("02:00:00:00:00:07", ["PERMANENT"])
    straight, over = ip("route", "show", "10.7.0.0/16")
    assert (straight["dev"], straight["scope"]) == ("eth0", "link")
    assert (over["gateway"], over["metric"], over["dev"]) == ("10.0.0.7", 50, "eth0")
    (default,) = ip("route", "show", "default")
    assert default["gateway"] == "10.0.0.9"


async def test_route_and_neighbour_that_were_there_are_brought_back_just_as_they_were(
    settings: KernelSettings, ip: Ip
) -> None:
    ip("route", "add", "10.7.0.0/16", "via", "10.1.0.9", "dev", "eth1", "src", "10.1.0.1", "mtu", "1400", "proto", "77")
    ip("neighbour", "add", "10.0.0.7", "lladdr", "02:00:00:00:00:55", "dev", "eth0")
    before = everything(ip)
    changes: list[tuple[Setting, Json]] = [
        (Setting.ROUTE, {"to": "10.7.0.0/16"}),
        (Setting.NEIGHBOUR, {"ip": "10.0.0.7", "mac": "02:00:00:00:00:07"}),
    ]
    for setting, value in changes:
        state = await settings.read("eth0", setting, value)
        await settings.write("eth0", setting, value)
        assert everything(ip) != before
        if setting is Setting.ROUTE:
            (route,) = ip("route", "show", "10.7.0.0/16")
            assert route["dev"] == "eth0"
        await settings.restore("eth0", setting, value, state)
        assert everything(ip) == before


async def test_neighbour_that_the_kernel_had_learned_is_one_that_it_asks_for_again(
    settings: KernelSettings, ip: Ip
) -> None:
    mac = "02:00:00:00:00:07"
    ip("neighbour", "add", "10.0.0.7", "lladdr", mac, "dev", "eth0", "nud", "reachable")
    held = Settings(
        {"eth0": PortConfig(interface="eth0")},
        settings,
        MemoryDisk(),
        clock=SystemClock(),
        life=str,
        on_change=lambda: None,
    )
    await held.set("r1", "eth0", "neighbour", {"ip": "10.0.0.7", "mac": mac})
    (neighbour,) = ip("neighbour", "show", "10.0.0.7", "dev", "eth0")
    assert neighbour["state"] == ["PERMANENT"]
    assert (await held.put_back("r1"))["left"] == []
    (neighbour,) = ip("neighbour", "show", "10.0.0.7", "dev", "eth0")
    assert (neighbour["lladdr"], neighbour["state"]) == (mac, ["STALE"])


async def test_interface_that_was_made_anew_gets_what_the_old_one_had(
    settings: KernelSettings, crossbar: Crossbar, ip: Ip
) -> None:
    route: Json = {"to": "10.7.0.0/16"}
    ip("route", "add", "10.7.0.0/16", "dev", "eth0")
    wanted: list[tuple[Setting, Json]] = [(Setting.MTU, 1500), (Setting.ADDRESS, "10.0.0.1/24"), (Setting.ROUTE, route)]
    states = [(setting, value, await settings.read("eth0", setting, value)) for setting, value in wanted]
    before = everything(ip)
    (old,) = ip("link", "show", "eth0")
    crossbar.unplug("p0")
    with pytest.raises(LinkError, match="eth0: no such interface"):
        await settings.restore("eth0", Setting.MTU, 1500, 4200)
    crossbar.plug("p0", host="h0", interface="eth0", mtu_bytes=9000)
    (new,) = ip("link", "show", "eth0")
    assert new["ifindex"] != old["ifindex"]
    for setting, value, state in states:
        await settings.restore("eth0", setting, value, state)
    after = everything(ip)
    assert sorted(after["links"]) == sorted(before["links"])
    assert sorted(after["addresses"]) == sorted(before["addresses"])
    assert [one for one in after["routes"] if one["dst"] == "10.7.0.0/16"] == [
        one for one in before["routes"] if one["dst"] == "10.7.0.0/16"
    ]


async def test_what_cannot_be_set_or_read_is_refused_in_words(settings: KernelSettings, ip: Ip) -> None:
    ip("tuntap", "add", "dev", "tap0", "mode", "tap")
    ip("address", "add", "fd00::1/64", "dev", "eth0", "nodad")
    writes: list[tuple[str, Setting, Json, str]] = [
        ("eth0", Setting.MTU, 1000, "below 1280: the kernel would remove fd00::1/64"),
        ("eth0", Setting.FEC, "rs", "eth0: cannot read the FEC: the NIC says not supported"),
        ("eth0", Setting.AUTONEG, True, "eth0: cannot switch auto-negotiation on: the NIC says not supported"),
    ]
    for interface, setting, value, words in writes:
        with pytest.raises(RefusedError, match=words):
            await settings.write(interface, setting, value)
    with pytest.raises(RefusedError, match="eth0: cannot read the FEC: the NIC says not supported"):
        await settings.read("eth0", Setting.FEC, "rs")
    assert ("eth0", 4200) in everything(ip)["links"]
    with pytest.raises(KernelRefusal, match="cannot set the MTU of tap0 to 65535: Invalid argument: mtu greater than"):
        await settings.write("tap0", Setting.MTU, 65535)
    with pytest.raises(LinkError, match="eth7: no such interface here"):
        await settings.read("eth7", Setting.MTU, 1500)
    with pytest.raises(LinkError, match=r"eth7: .*no such interface"):
        await settings.read("eth7", Setting.AUTONEG, False)


def ask_ioctl(keeper: Keeper, interface: str) -> dict[str, int]:
    """What ethtool's old way says of an interface (struct ethtool_cmd)."""
    command = array.array("B", struct.pack("=IIIHBBBBBB", ETHTOOL_GSET, 0, 0, 0, 0, 0, 0, 0, 0, 0) + bytes(24))
    request = struct.pack("=16sQ", interface.encode(), command.buffer_info()[0]) + bytes(16)
    with keeper.sockets("h0").open(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        fcntl.ioctl(opened, SIOCETHTOOL, request)
    _, _, _, speed, duplex, _, _, _, autoneg, _ = struct.unpack_from("=IIIHBBBBBB", command)
    return {"speed": speed, "duplex": duplex, "autoneg": autoneg}


async def test_autoneg_of_a_device_that_has_it_is_switched_and_restored(
    settings: KernelSettings, keeper: Keeper, ip: Ip
) -> None:
    """A TAP device: of what a kernel without hardware has, the one that takes link settings."""
    ip("tuntap", "add", "dev", "tap0", "mode", "tap")
    before = ask_ioctl(keeper, "tap0")
    state = await settings.read("tap0", Setting.AUTONEG, True)
    assert isinstance(state, dict)
    assert (state["autoneg"], state["speed"]) == (bool(before["autoneg"]), before["speed"])
    wanted = not state["autoneg"]
    await settings.write("tap0", Setting.AUTONEG, wanted)
    assert ask_ioctl(keeper, "tap0")["autoneg"] == wanted
    assert holds(Setting.AUTONEG, wanted, await settings.read("tap0", Setting.AUTONEG, wanted))
    await settings.restore("tap0", Setting.AUTONEG, wanted, state)
    assert ask_ioctl(keeper, "tap0") == before


async def test_fec_of_a_nic_that_tells_of_none_is_not_changed() -> None:
    """The kernel takes no empty set of modes, so there were no way back."""
    with PlayedEthtool().playing() as ethtool:
        ethtool.answers["eth0", 29] = b""
        with pytest.raises(
            RefusedError, match="eth0: the NIC reports no configured FEC, so the FEC could not be put back"
        ):
            await KernelSettings(ethtool, InlineOffload()).write("eth0", Setting.FEC, "rs")


# --- the kernel's simulated NIC (netdevsim): ethtool netlink in a driver, which no veth has


BUS = Path("/sys/bus/netdevsim")
FIRST_ID = 4200
"""Far from those that somebody else may have made."""


@pytest.fixture
def interface() -> Iterator[str]:
    """A NIC of one port, in this network; gone after the test."""
    if not BUS.is_dir():
        pytest.skip("needs netdevsim: this kernel has none (CONFIG_NETDEVSIM, modprobe netdevsim)")
    number = next(one for one in itertools.count(FIRST_ID) if not (BUS / f"devices/netdevsim{one}").exists())
    (BUS / "new_device").write_text(f"{number} 1")
    try:
        (found,) = (BUS / f"devices/netdevsim{number}/net").iterdir()
        yield found.name
    finally:
        (BUS / "del_device").write_text(str(number))


@pytest.mark.root
async def test_fec_is_set_by_its_driver_and_put_back(interface: str) -> None:
    settings = KernelSettings(HostSockets(), InlineOffload())
    try:
        await settings.restore(interface, Setting.FEC, "off", {"auto": False, "modes": ["off"]})
        before = await settings.read(interface, Setting.FEC, "rs")
        await settings.write(interface, Setting.FEC, "rs")
        assert holds(Setting.FEC, "rs", await settings.read(interface, Setting.FEC, "rs"))
        await settings.restore(interface, Setting.FEC, "rs", before)
        assert restored(Setting.FEC, before, await settings.read(interface, Setting.FEC, "rs"))
    finally:
        await settings.restore(interface, Setting.FEC, "auto", {"auto": True, "modes": []})


@pytest.mark.root
async def test_counters_of_its_driver_are_read(interface: str) -> None:
    counters = await KernelCounters(HostSockets(), InlineOffload()).read_counters(interface)
    assert (counters.tx_errors, counters.rx_errors) == (0, 0)
