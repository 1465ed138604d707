"""What would cut the agent off, judged on the routes of a real kernel; and that what is let pass does not."""

import functools
import os
from collections.abc import Callable

import pytest

from hwd.twin.kernel import Crossbar, Keeper
from hwd_agents.process.config import PortConfig
from hwd_agents.settings.port_settings import Settings
from hwd_agents.sources.kernel.broker_route import BrokerWay
from hwd_agents.sources.kernel.kernel_settings import KernelSettings
from hwd_agents.sources.setting_source import Setting
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.disk import MemoryDisk
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import LinkError, RefusedError
from hwd_drivers.core.offload import InlineOffload

from ...namespace_ip import run_ip

pytestmark = pytest.mark.kernel

NEAR, FAR, FAR6 = "10.0.0.9", "192.0.2.7", "2001:db8::7"
"""Of a broker on the network of eth0, and of one that eth0's router leads to."""
ROUTER = "10.0.0.254"
MAC = "02:00:00:00:00:55"

Ip = Callable[..., str]


@pytest.fixture
def ip(keeper: Keeper, crossbar: Crossbar) -> Ip:
    """`ip` of h0, whose eth0 leads to the broker and whose eth1 does not."""
    run = functools.partial(run_ip, keeper)
    for number in range(2):
        crossbar.plug(f"p{number}", host="h0", interface=f"eth{number}", mtu_bytes=4200)
        run("address", "add", f"10.{number}.0.1/24", "dev", f"eth{number}")
    run("route", "add", "192.0.2.0/24", "via", ROUTER, "dev", "eth0", "metric", "100")
    run("address", "add", "fd00::1/64", "dev", "eth0", "nodad")
    run("route", "add", "2001:db8::/32", "via", "fd00::fe", "dev", "eth0")
    return run


def way_to(keeper: Keeper, *addresses: str) -> BrokerWay:
    async def known() -> tuple[str, ...]:
        return addresses

    return BrokerWay(keeper.sockets("h0"), InlineOffload(), known)


CUTS: list[tuple[str, str, Setting, Json, str]] = [
    (NEAR, "eth0", Setting.MTU, 1500, "too long for the network"),
    (NEAR, "eth0", Setting.AUTONEG, False, "takes the link down"),
    (NEAR, "eth0", Setting.FEC, "rs", "takes the link down"),
    (NEAR, "eth0", Setting.NEIGHBOUR, {"ip": NEAR, "mac": MAC}, "to that hardware address"),
    (FAR, "eth0", Setting.NEIGHBOUR, {"ip": ROUTER, "mac": MAC}, "to that hardware address"),
    (NEAR, "eth1", Setting.ADDRESS, f"{NEAR}/32", "for its own"),
    (FAR, "eth1", Setting.ADDRESS, f"{ROUTER}/32", "for its own"),
    (NEAR, "eth1", Setting.ADDRESS, "10.0.0.2/25", "leave by eth1, as if 10.0.0.0/25 were there"),
    (FAR, "eth0", Setting.ADDRESS, "192.0.2.1/24", "leave by eth0, as if 192.0.2.0/24 were there"),
    (NEAR, "eth1", Setting.ROUTE, {"to": f"{NEAR}/32"}, "would take this route to 10.0.0.9/32"),
    (FAR, "eth1", Setting.ROUTE, {"to": "192.0.2.0/25", "via": "10.1.0.9"}, "would take this route"),
    (FAR, "eth1", Setting.ROUTE, {"to": "192.0.2.0/24", "metric": 50}, "would take this route"),
    (FAR, "eth0", Setting.ROUTE, {"to": "192.0.2.0/24", "via": "10.0.0.253", "metric": 100}, "would take this route"),
    (FAR6, "eth1", Setting.ROUTE, {"to": "2001:db8::/64"}, "would take this route to 2001:db8::/64"),
    (FAR6, "eth0", Setting.MTU, 1500, "too long for the network"),
]


async def test_change_that_would_cut_the_agent_off_is_refused_and_would_really_have_done_so(
    keeper: Keeper, ip: Ip
) -> None:
    """Made all the same, the route is another, or the router is the host itself."""
    settings = KernelSettings(keeper.sockets("h0"), InlineOffload())
    for broker, interface, setting, value, why in CUTS:
        words = (
            rf"^{interface}: {setting} .*{why}.*: the agent reaches its broker at {broker} over eth0.*\. "
            "Nothing was changed"
        )
        with pytest.raises(RefusedError, match=words):
            await way_to(keeper, broker).check(interface, setting, value)
        if setting is Setting.ROUTE or (setting is Setting.ADDRESS and interface == "eth1"):
            before = [ip("route", "get", one) for one in (broker, ROUTER)]
            state = await settings.read(interface, setting, value)
            await settings.write(interface, setting, value)
            assert [ip("route", "get", one) for one in (broker, ROUTER)] != before, (broker, interface, value)
            await settings.restore(interface, setting, value, state)


async def test_an_interface_whose_name_is_no_text_is_in_nobodys_way(keeper: Keeper, ip: Ip) -> None:
    ip("link", "add", "name", os.fsdecode(b"\xff"), "type", "veth")
    way = way_to(keeper, NEAR)
    await way.check("eth1", Setting.MTU, 1500)
    with pytest.raises(RefusedError, match="too long for the network"):
        await way.check("eth0", Setting.MTU, 1500)


HARMLESS: list[tuple[str, str, Setting, Json]] = [
    (NEAR, "eth1", Setting.MTU, 1500),
    (FAR, "eth1", Setting.AUTONEG, False),
    (NEAR, "eth0", Setting.NEIGHBOUR, {"ip": "10.0.0.7", "mac": MAC}),
    (NEAR, "eth0", Setting.ADDRESS, "10.0.0.2/24"),
    (NEAR, "eth1", Setting.ADDRESS, "10.9.0.1/32"),
    (NEAR, "eth1", Setting.ADDRESS, "10.0.0.2/16"),
    (NEAR, "eth1", Setting.ROUTE, {"to": "10.0.0.0/8"}),
    (NEAR, "eth1", Setting.ROUTE, {"to": "0.0.0.0/0", "via": "10.1.0.9"}),
    (FAR, "eth1", Setting.ROUTE, {"to": "192.0.2.0/24", "metric": 200}),
    (FAR, "eth0", Setting.ROUTE, {"to": "192.0.2.0/25", "via": ROUTER}),
    (FAR, "eth1", Setting.ROUTE, {"to": "198.51.100.0/24"}),
    (FAR6, "eth1", Setting.ROUTE, {"to": "::/0"}),
]


async def test_change_that_leaves_the_way_as_it_is_is_let_pass_and_the_kernel_agrees(keeper: Keeper, ip: Ip) -> None:
    settings = KernelSettings(keeper.sockets("h0"), InlineOffload())
    for broker, interface, setting, value in HARMLESS:
        before = ip("route", "get", broker).partition(" src ")[0].split()
        await way_to(keeper, broker).check(interface, setting, value)
        if setting is Setting.AUTONEG:  # which a veth does not have
            continue
        state = await settings.read(interface, setting, value)
        await settings.write(interface, setting, value)
        assert ip("route", "get", broker).partition(" src ")[0].split() == before, (broker, interface, value)
        await settings.restore(interface, setting, value, state)


@pytest.mark.parametrize("upper", ["br0", "eth1.7"], ids=["bridge", "vlan"])
async def test_interface_below_a_bridge_or_a_vlan_leads_to_the_broker_too(keeper: Keeper, ip: Ip, upper: str) -> None:
    if upper == "br0":
        ip("link", "add", "br0", "type", "bridge")
        ip("link", "set", "eth1", "master", "br0")
    else:
        try:
            ip("link", "add", "link", "eth1", "name", "eth1.7", "type", "vlan", "id", "7")
        except AssertionError as error:
            if "Unknown device type" not in str(error):
                raise
            pytest.skip("this kernel has no VLANs (8021q)")
    ip("link", "set", upper, "up")
    ip("address", "add", "10.7.0.1/24", "dev", upper)
    both = " and ".join(sorted(["eth1", upper]))
    with pytest.raises(RefusedError, match=rf"broker at 10\.7\.0\.9 over {both}"):
        await way_to(keeper, "10.7.0.9").check("eth1", Setting.MTU, 1500)
    await way_to(keeper, "10.7.0.9").check("eth0", Setting.MTU, 1500)


async def test_each_address_that_the_broker_may_have_counts_but_this_host_and_what_nothing_leads_to(
    keeper: Keeper, ip: Ip
) -> None:
    async def unknown() -> tuple[str, ...]:
        raise LinkError("broker.lab: cannot find the address of the broker")

    for address in ("10.0.0.1", "127.0.0.1", "203.0.113.1"):
        await way_to(keeper, address).check("eth0", Setting.MTU, 1500)
    await way_to(keeper).check("eth0", Setting.MTU, 1500)
    with pytest.raises(RefusedError, match=r"broker at 10\.0\.0\.9"):
        await way_to(keeper, "10.1.0.9", NEAR).check("eth0", Setting.MTU, 1500)
    with pytest.raises(LinkError, match="cannot find the address"):
        await BrokerWay(keeper.sockets("h0"), InlineOffload(), unknown).check("eth1", Setting.MTU, 1500)


async def test_refused_change_is_neither_made_nor_held(keeper: Keeper, ip: Ip) -> None:
    source = KernelSettings(keeper.sockets("h0"), InlineOffload())
    ports = {name: PortConfig(interface=name) for name in ("eth0", "eth1")}
    held = Settings(
        ports, source, MemoryDisk(), clock=SystemClock(), life=str, on_change=lambda: None, way=way_to(keeper, NEAR)
    )
    with pytest.raises(RefusedError, match="Set it at a port that does not lead to the broker"):
        await held.set("r1", "eth0", "mtu", 1500)
    assert (held.held, "mtu 4200" in ip("link", "show", "eth0")) == ((), True)
    await held.set("r1", "eth1", "mtu", 1500)
    assert "mtu 1500" in ip("link", "show", "eth1")
