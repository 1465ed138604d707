"""Drivers of real interfaces in a namespace."""

import pytest

from hwd.twin.kernel import Crossbar, Keeper
from hwd_agents.sources.kernel.interface_drivers import KernelDrivers
from hwd_drivers.core.errors import LinkError, RefusedError
from hwd_drivers.core.offload import InlineOffload

pytestmark = pytest.mark.kernel


@pytest.fixture
def drivers(keeper: Keeper, crossbar: Crossbar) -> KernelDrivers:
    """Of h0, whose eth0 is one end of a veth."""
    crossbar.plug("p0", host="h0", interface="eth0")
    return KernelDrivers(keeper.sockets("h0"), InlineOffload())


async def test_the_driver_of_an_interface_is_named(drivers: KernelDrivers) -> None:
    found = await drivers.read_driver("eth0")
    assert found.name == "veth"
    assert found.firmware is None


async def test_an_interface_that_tells_of_no_driver_is_refused(drivers: KernelDrivers) -> None:
    with pytest.raises(RefusedError, match="lo: cannot read its driver: Operation not supported"):
        await drivers.read_driver("lo")


@pytest.mark.parametrize("interface", ["eth7", "a-name-that-is-too-long"])
async def test_a_missing_interface_is_an_error_with_its_name(drivers: KernelDrivers, interface: str) -> None:
    with pytest.raises(LinkError, match=interface):
        await drivers.read_driver(interface)
