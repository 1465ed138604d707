"""What runs have set, put back without an agent: by the host's own settings, out of the journal that the agent left."""

from pathlib import Path

import pytest

from hwd_agents.process.config import AgentConfig, PortConfig
from hwd_agents.settings.port_settings import Settings
from hwd_agents.settings.put_back import put_back_all
from hwd_drivers.core.disk import FileDisk
from hwd_drivers.core.errors import FailedError

from ..conftest import Stage

PORTS = {"eth0": PortConfig(interface="eth0"), "eth1": PortConfig(interface="eth1")}
CONFIG = AgentConfig(testbed="tb", host="h0", broker="mqtt://127.0.0.1", ports=PORTS)


async def set_mtus(one: Stage, folder: Path) -> None:
    """By an agent that then ends."""
    one.hosts["h0"].plug("eth1")
    for interface in PORTS:
        one.hosts["h0"].states[interface, "mtu", ""] = 1500
    settings = Settings(
        PORTS,
        one.sources["h0"].settings,
        FileDisk(folder / "settings"),
        clock=one.clock,
        life=lambda: "boot 1",
        on_change=lambda: None,
    )
    await settings.set("r1", "eth0", "mtu", 4200)
    await settings.set("r2", "eth1", "mtu", 9000)
    settings.close()


def mtus(one: Stage) -> list[object]:
    return [one.hosts["h0"].states[interface, "mtu", ""] for interface in PORTS]


async def test_all_runs_are_put_back_and_named_and_what_is_not_is_said(one: Stage, tmp_path: Path) -> None:
    await set_mtus(one, tmp_path)
    assert mtus(one) == [4200, 9000]
    told = await put_back_all(CONFIG, tmp_path, one.sources["h0"], one.clock)
    assert told == ["eth1 mtu of run r2", "eth0 mtu of run r1"]
    assert mtus(one) == [1500, 1500]
    assert (tmp_path / "settings").stat().st_size == 0
    assert await put_back_all(CONFIG, tmp_path, one.sources["h0"], one.clock) == []
    await set_mtus(one, tmp_path)
    without = AgentConfig(testbed="tb", host="h0", broker="mqtt://127.0.0.1", ports={"eth0": PORTS["eth0"]})
    with pytest.raises(FailedError, match=r"not put back: eth1 mtu of run r2: eth1: no such port"):
        await put_back_all(without, tmp_path, one.sources["h0"], one.clock)
    assert mtus(one) == [1500, 9000]
    assert (tmp_path / "settings").stat().st_size > 0
