"""Drivers of real interfaces in a namespace."""

import pytest

from hwd.twin.kernel import Crossbar, Keeper
from hwd_agents.sources.kernel.interface_drivers import KernelDrivers
from hwd_drivers.core.errors import LinkError, RefusedError
from hwd_drivers.core.offload import InlineOffload

pytestmark = pytest.mark.kernel


async def test_the_driver_of_an_interface_is_named_or_refused_in_words(keeper: Keeper, crossbar: Crossbar) -> None:
    crossbar.plug("p0", host="h0", interface="eth0")
    drivers = KernelDrivers(keeper.sockets("h0"), InlineOffload())
    found = await drivers.read_driver("eth0")
    assert (found.name, found.firmware) == ("veth", None)
    with pytest.raises(RefusedError, match="lo: cannot read its driver: Operation not supported"):
        await drivers.read_driver("lo")
    for interface in ("eth7", "a-name-that-is-too-long"):
        with pytest.raises(LinkError, match=interface):
            await drivers.read_driver(interface)
