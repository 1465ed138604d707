"""Settings and counters of the kernel's simulated NIC (netdevsim): ethtool netlink in a driver, which no veth has."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from hwd_agents.sources.kernel.kernel_settings import KernelSettings
from hwd_agents.sources.kernel.port_counters import KernelCounters
from hwd_agents.sources.kernel.sockets import HostSockets
from hwd_agents.sources.setting_source import Setting, holds, restored
from hwd_drivers.core.offload import InlineOffload

pytestmark = [pytest.mark.kernel, pytest.mark.root]

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


async def test_counters_of_its_driver_are_read(interface: str) -> None:
    counters = await KernelCounters(HostSockets(), InlineOffload()).read_counters(interface)
    assert (counters.tx_errors, counters.rx_errors) == (0, 0)
