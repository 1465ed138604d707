"""A part with an unknown position: a roll-back leaves it, says so, and stops nothing after it."""

from pathlib import Path

import pytest

from hwd.daemon.installed_drivers import load
from hwd.model.bodies import ReconfigurationBody
from hwd.model.documents.reconfigurations import ReconfigurationEnded
from hwd.model.fault import parse_fault
from hwd.sim.world import World
from hwd_drivers.core.errors import DeviceError
from hwd_drivers.twins.virtual_time import run_virtual

TEXT = """testbed: bench
switches:
  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {}}
  t1:
    driver: ttl
    model: latching-2x2
    options: {parts: [{pulse: [0, 1]}]}
    twin: {options: {parts: [{pulse: [0, 1]}]}}
hosts:
  h0: {twin: {timing: ideal}, nics: {eth0: {ip: 10.1.0.1/32, rdma: mlx5_0, module: 100g-lr4}}}
fibres:
  - h0.eth0.tx -> t1.1A
  - t1.1B -> h0.eth0.rx
"""


def test_a_change_of_it_that_is_undone_leaves_it_says_so_and_holds_up_nothing(tmp_path: Path) -> None:
    path = tmp_path / "testbed.yaml"
    path.write_text(TEXT)
    testbed = load(path).require()

    async def main() -> None:
        async with World(testbed, TEXT, seed=7, records_url=f"sqlite:///{tmp_path / 'records.db'}") as world:
            await world.settled()
            assert world.daemon is not None
            service = world.daemon.service
            world.faults.set(parse_fault({"switch": "ocs1", "fault": "deny", "code": "ERR"}))
            with pytest.raises(DeviceError, match=r"ocs1: .*Outcome: rolled-back"):
                await service.apply(ReconfigurationBody(what="t1:1A-2B ocs1:1A-2B"))
            (ended,) = [one.fact for one in world.documents if isinstance(one.fact, ReconfigurationEnded)]
            said = "t1: 1A-2B, 2A-1B: what it joined before could not be told, so that it was not brought back"
            assert ended.remarks == [said]
            assert list(world.rack.switches["t1"].mirror.states.values()) == [1]
            applied = await service.apply(ReconfigurationBody(what="t1:1A-1B"))
            assert applied.outcome == "confirmed"

    run_virtual(main(), seed=7)
