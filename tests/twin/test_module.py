"""Modules of each standard in a rack, read by the agent's own watcher over the wire of their host."""

import asyncio
import random

import pytest

from hwd.twin.agent_config import prompt_unless_declared
from hwd.twin.nic import What
from hwd_agents.process.config import PortConfig, SamplingConfig
from hwd_agents.sources.modules.module_memory import Los
from hwd_agents.watchers.optics_watcher import OpticsWatcher
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.virtual_time import VirtualClock

from .conftest import MakeTestbed, on_stage

HOSTS = """  h8:
    twin: {{timing: ideal}}
    nics: {{eth0: {{module: {module}}}}}
  h9:
    twin: {{timing: ideal}}
    nics: {{eth0: {{module: {module}}}}}"""


class Told:
    """Events of a watcher, as bounds."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int, int]] = []

    def __call__(self, kind: str, port: str | None, *, earliest_ns: int, at_ns: int, **rest: object) -> None:
        self.events.append((kind, earliest_ns, at_ns))


@pytest.mark.parametrize(
    ("module", "standard", "los", "lanes"),
    [
        ("25g-lr", "SFF-8472", Los.STATE, 1),
        ("100g-lr4", "SFF-8636", Los.LATCHED, 4),
        ("400g-fr4", "CMIS", Los.LATCHED, 4),
        ("{type: 100g-fr1, memory: cmis, part: QSFP112-FR1}", "CMIS", Los.LATCHED, 1),
        (
            "{type: ours, lanes: 16, parallel: false, tx_min_dbm: -3, tx_max_dbm: 3, rx_min_dbm: -9, rx_max_dbm: 3}",
            "CMIS",
            Los.LATCHED,
            16,
        ),
    ],
    ids=["sfp", "qsfp", "qsfp-dd", "one lane of cmis", "two banks"],
)
async def test_light_of_a_module_of_each_standard_comes_and_goes_within_the_bounds_that_are_told(
    make_testbed: MakeTestbed, clock: VirtualClock, module: str, standard: str, los: Los, lanes: int
) -> None:
    testbed = make_testbed(hosts=HOSTS.format(module=module), extra="  - h8.eth0 <-> ocs1.9\n  - h9.eth0 <-> ocs1.10")
    told = Told()
    async with on_stage(testbed, MemoryDialer(MemoryNet()), clock) as scene, scene.agent("h9") as source:
        watcher = OpticsWatcher(
            "eth0",
            PortConfig(interface="eth0", lanes=lanes),
            source.modules,
            clock,
            told,
            sampling=SamplingConfig(),
            phase=random.Random(1),
            timings=prompt_unless_declared(testbed.hosts["h9"]),
            on_change=lambda: None,
        )
        watching = asyncio.create_task(watcher.run())
        await asyncio.sleep(2.5)
        read = watcher.module
        assert read is not None
        assert (read.standard, read.los, watcher.why_not, watcher.lit) == (standard, los, "", False)
        assert len(read.rx_power_dbm) >= lanes
        await watcher.begin()
        await asyncio.sleep(0.1)
        await scene.change("9A-10B", "10A-9B")
        await asyncio.sleep(0.5)
        monitors = watcher.monitors()
        assert monitors is not None
        assert len(monitors.rx_power_dbm) == lanes
        assert all(power_dbm is not None and -9 < power_dbm < 3 for power_dbm in monitors.rx_power_dbm)
        assert all(bias_ma is not None and 20 < bias_ma < 120 for bias_ma in monitors.bias_ma)
        await scene.change(remove=("9A-10B", "10A-9B"))
        await asyncio.sleep(0.5)
        watching.cancel()
        await asyncio.wait([watching])
    assert [kind for kind, *_ in told.events] == ["light", "dark"]
    for kind, earliest_ns, at_ns in told.events:
        up = kind == "light"
        (truth,) = scene.happened("h9.eth0", What.LIGHT, up=up)
        assert earliest_ns <= truth.before_ns <= truth.after_ns <= at_ns
        assert at_ns - earliest_ns <= (2 if los is Los.LATCHED and up else 1) * 5_000_000 + 1_000_000
