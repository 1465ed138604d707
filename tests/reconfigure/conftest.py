"""A small world: one twin switch, two twin hosts with two ports each, and the daemon."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from hwd.config.testbed import load_testbed
from hwd.reconfigure.planner import Request
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd.sim.world import World
from hwd.web.service import Service
from hwd_drivers.kit import registry
from hwd_drivers.kit.virtual import run_virtual

TESTBED = """
testbed: two-hosts
switches:
  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: polatis-opus, seed: 7}}
hosts:
  h0:
    twin: {kernel: false, timing: opus-cx6dx, seed: 1}
    nics:
      eth0: {rdma: mlx5_0, rail: 0, ip: 10.1.0.1/32, module: 100g-lr4}
      eth1: {rdma: mlx5_1, rail: 0, ip: 10.1.0.2/32, module: 100g-lr4}
  h1:
    twin: {kernel: false, timing: opus-cx6dx, seed: 2, clock: {offset_s: -3, drift_ppm: -40}}
    nics:
      eth0: {rdma: mlx5_0, rail: 0, ip: 10.1.1.1/32, module: 100g-lr4}
      eth1: {rdma: mlx5_1, rail: 0, ip: 10.1.1.2/32, module: 100g-lr4}
fibres:
  - h0.eth0 <-> ocs1.1
  - h0.eth1 <-> ocs1.2
  - h1.eth0 <-> ocs1.3
  - h1.eth1 <-> ocs1.4
"""
STRAIGHT, CROSSED = "ocs1:1A-3B,3A-1B,2A-4B,4A-2B", "ocs1:1A-4B,4A-1B,2A-3B,3A-2B"
"""Both ways to join the four ports in two links between the hosts."""


class Lab:
    """What a test does to the world."""

    def __init__(self, world: World, changed: asyncio.Event) -> None:
        self.world = world
        self._changed = changed

    @property
    def service(self) -> Service:
        assert self.world.daemon is not None
        return self.world.daemon.service

    @property
    def reconfigurer(self) -> Reconfigurer:
        assert self.world.daemon is not None
        return self.world.daemon.reconfigurer

    def request(self, what: str, **more: Any) -> Request:
        return self.service.request(what, **more)

    def light(self) -> str:
        """The crossconnects that the mirrors really have."""
        mirror = self.world.rack.switches["ocs1"].mirror
        return "ocs1:" + ",".join(str(one.crossconnect) for one in mirror.readings(self.world.clock.monotonic_ns()))

    async def until(self, kind: str, **fields: Any) -> None:
        """Until such a document comes, from now on."""
        since = len(self.world.documents)
        while not any(
            document.kind == kind and fields.items() <= document.data.items()
            for document in self.world.documents[since:]
        ):
            self._changed.clear()
            await self._changed.wait()

    def told(self, kind: str) -> list[dict[str, Any]]:
        return [dict(document.data) for document in self.world.documents if document.kind == kind]


RunLab = Callable[[Callable[[Lab], Coroutine[Any, Any, None]]], None]


@pytest.fixture
def run_lab(tmp_path: Path) -> RunLab:
    """Runs a coroutine function in a settled world, in virtual time."""
    path = tmp_path / "testbed.yaml"
    path.write_text(TESTBED)
    testbed = load_testbed(path, {name: registry.find(name) for name in registry.names()}).testbed
    assert testbed is not None

    async def main(test: Callable[[Lab], Coroutine[Any, Any, None]]) -> None:
        changed = asyncio.Event()
        records_url = f"sqlite:///{tmp_path / 'records.db'}"
        async with World(
            testbed, TESTBED, seed=7, records_url=records_url, sinks=[lambda document: changed.set()]
        ) as world:
            await world.settled()
            await test(Lab(world, changed))

    def run(test: Callable[[Lab], Coroutine[Any, Any, None]]) -> None:
        run_virtual(main(test), seed=7)

    return run
