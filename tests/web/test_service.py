"""What the service promises beyond its HTTP calls, in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hwd.daemon.installed_drivers import load
from hwd.model.bodies import ActBody, LeaseBody, ReconfigurationBody, RunBody
from hwd.model.recorded_run import RunOutcome
from hwd.model.run_facts import RunStarted
from hwd.reconfigure.applies import PLANS_KEPT
from hwd.sim.world import World, agent_node
from hwd.web.service import Service
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.devices.facts import SwitchCommand
from hwd_drivers.twins.virtual_time import VirtualLoop

from ..virtual_time import SELDOM_S

TESTBED = """\
testbed: two
switches:
  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 16x16, twin: {timing: polatis-opus, seed: 7}}
  ocs2: {driver: polatis-tl1, model: polatis-6000, size: 8x8, owner: h0, twin: {timing: polatis-opus, seed: 8}}
hosts:
  h0:
    twin: {timing: opus-cx6dx, seed: 1, clock: {offset_s: 5, drift_ppm: 50}}
    nics: {eth0: {rdma: mlx5_0, rail: 0, ip: 10.1.0.1/32, module: 100g-lr4}}
  h1:
    twin: {timing: opus-cx6dx, seed: 2, clock: {offset_s: -3, drift_ppm: -40}}
    nics: {eth0: {rdma: mlx5_0, rail: 0, ip: 10.1.1.1/32, module: 100g-lr4}}
fibres:
  - h0.eth0 <-> ocs1.1
  - h1.eth0 <-> ocs1.3
"""
PLAYBOOK = "playbook: p\nshows: x\nsteps:\n  - apply: {pairs: 'ocs1:1A-3B'}\n  - wait: {for: ready, within_s: 600}\n"


@pytest.fixture
async def world(virtual_loop: VirtualLoop, tmp_path: Path) -> AsyncIterator[World]:
    path = tmp_path / "two.yaml"
    path.write_text(TESTBED)
    records_url = f"sqlite:///{tmp_path}/records.db"
    async with World(load(path).require(), TESTBED, seed=7, light_every_s=SELDOM_S, records_url=records_url) as world:
        yield world


async def start(service: Service) -> str:
    return (await service.runs.start(RunBody(text=PLAYBOOK, file="p.yaml", parameters={}))).run


async def test_ports_are_told_in_the_order_of_their_numbers(world: World) -> None:
    service = await world.settled()
    ports = [f"ocs1.{port}" for port in (1, 2, 9, 10, 11)]
    taken = await service.leases.take(LeaseBody(holder="ada", ports=[*reversed(ports)], for_s=60.0))
    assert taken.ports == ports
    (lease,) = [one for one in service.leases.leases() if one.kind == "claim"]
    assert lease.ports == ports
    with pytest.raises(RefusedError, match=rf"^{', '.join(ports)}: leased to ada"):
        await service.leases.take(LeaseBody(holder="ben", ports=ports, for_s=60.0))


async def test_a_switch_that_a_host_drives_is_not_waited_for(world: World) -> None:
    service = await world.settled()
    await asyncio.sleep(1)
    assert [(one.switch, one.up) for one in (await service.rack.switches())] == [("ocs1", True), ("ocs2", True)]
    await world.stop(agent_node("h0"))
    await asyncio.sleep(1)
    assert service.rack.ready().ready
    assert [(one.switch, one.up) for one in (await service.rack.switches())] == [("ocs1", True), ("ocs2", None)]


async def test_the_oldest_plans_are_forgotten(world: World) -> None:
    service = await world.settled()
    requests = [ReconfigurationBody(what="ocs1:1A-3B", ready_within_s=60.0 + n) for n in range(PLANS_KEPT + 1)]
    first, second, *_ = [str((await service.light.plan(request)).hash) for request in requests[:-1]]
    await service.light.plan(requests[0])  # planned again: the second is the oldest now
    await service.light.plan(requests[-1])
    with pytest.raises(RefusedError, match=f"plan {second}: not known to this daemon"):
        await service.light.apply(ReconfigurationBody(hash=second))
    assert (await service.light.apply(ReconfigurationBody(hash=first))).outcome == "confirmed"


async def test_an_abort_that_could_mean_several_runs_ends_none(world: World) -> None:
    service = await world.settled()
    run = await start(service)
    other = await start(service)
    with pytest.raises(RefusedError, match=rf"several under way start so \({run}, {other}\)"):
        await service.runs.abort("", ActBody(by="a test"))
    assert (await service.runs.abort(run, ActBody(by="a test"))).run == run
    with pytest.raises(RefusedError, match="not under way"):
        await service.runs.abort(run, ActBody(by="a test"))


@pytest.mark.parametrize(
    ("turns", "why", "recorded"),
    [
        (1, "the daemon is ending; nothing new begins", []),
        (8, "the daemon ended before its first step; nothing was moved", [(RunOutcome.ABORTED, "untouched")]),
    ],
    ids=["read", "recorded"],
)
async def test_a_run_that_begins_while_the_daemon_ends_drives_nothing(
    world: World, turns: int, why: str, recorded: list[tuple[str, str]]
) -> None:
    service = await world.settled()
    starting = asyncio.create_task(start(service))
    for _ in range(turns):
        await asyncio.sleep(0)
    await service.close()
    with pytest.raises(RefusedError, match=why):
        await starting
    await asyncio.sleep(5)
    assert not [one for one in world.documents if isinstance(one.fact, SwitchCommand | RunStarted)]
    assert [(run.outcome, run.safe_state) for run in await service.runs.runs()] == recorded
    with pytest.raises(RefusedError, match="nothing new begins"):
        await start(service)
