"""Links through a composite, on twins: lit, in the status, leased, rolled back, and recovered after a crash."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hwd.daemon.installed_drivers import load
from hwd.model.bodies import ReconfigurationBody
from hwd.model.fault import parse_fault
from hwd.sim.world import World
from hwd_drivers.core.errors import ConfigError, DeviceError, FailedError, RefusedError
from hwd_drivers.twins.virtual_time import run_virtual

TEXT = """testbed: array
switches:
  a1: {driver: osw, model: osw, size: 2x2, twin: {timing: lowradix-8ms}}
  b1: {driver: osw, model: osw, size: 2x2, twin: {timing: lowradix-8ms}}
  x1: {driver: thorlabs-osw, model: osw22, twin: {timing: lowradix-8ms}}
hosts:
  h0: {twin: {timing: ideal}, nics: {eth0: {ip: 10.1.0.1/32, rdma: mlx5_0, module: 100g-lr4}}}
  h1: {twin: {timing: ideal}, nics: {eth0: {ip: 10.1.0.2/32, rdma: mlx5_0, module: 100g-lr4}}}
composites:
  sel: {ports: {1A..2A: x1.1A..2A, 1B..2B: b1.1A..2A}}
fibres:
  - h0.eth0 <-> sel.1
  - h1.eth0 <-> sel.2
  - x1.1B <-> a1.1A
  - x1.2B <-> a1.2A
  - a1.1B <-> b1.1B
  - a1.2B <-> b1.3B
  - a1.3B <-> b1.2B
  - a1.4B <-> b1.4B
"""
"""A Spanke switch, two to two, behind a 2x2 that swaps its inputs: each order can be had in two ways."""

LINKS = "sel:1A-2B,2A-1B"
Test = Callable[[World], Coroutine[Any, Any, None]]


@pytest.fixture
def in_world(tmp_path: Path) -> Callable[[Test], None]:
    path = tmp_path / "testbed.yaml"
    path.write_text(TEXT)
    testbed = load(path).require()

    async def main(test: Test) -> None:
        async with World(testbed, TEXT, seed=7, records_url=f"sqlite:///{tmp_path / 'records.db'}") as world:
            await world.settled()
            await test(world)

    return lambda test: run_virtual(main(test), seed=7)


def mirrors(world: World) -> dict[str, list[str]]:
    """What the twins' mirrors really have."""
    now_ns = world.clock.monotonic_ns()
    return {
        name: [str(one.crossconnect) for one in twin.mirror.readings(now_ns)]
        for name, twin in world.rack.switches.items()
    }


def joined(world: World) -> list[str]:
    """What the status says that the composite joins."""
    assert world.daemon is not None
    status: dict[str, Any] = msgspec.to_builtins(world.daemon.service.status())
    return [one["id"] for composite in status["composites"] for one in composite["crossconnects"]]


def test_a_link_comes_up_through_a_composite_and_the_status_says_what_it_joins(
    in_world: Callable[[Test], None],
) -> None:
    async def test(world: World) -> None:
        assert world.daemon is not None
        service = world.daemon.service
        assert joined(world) == ["1A-1B"]
        applied = await service.apply(ReconfigurationBody(what="pairs", ready_within_s=5))
        assert (applied.outcome, applied.not_ready) == ("confirmed", [])
        assert sorted(joined(world)) == ["1A-2B", "2A-1B"]
        plan = await service.plan(ReconfigurationBody(what=LINKS))
        assert plan.empty is True

    in_world(test)


def test_the_fewest_elements_move(in_world: Callable[[Test], None]) -> None:
    async def test(world: World) -> None:
        assert world.daemon is not None
        service = world.daemon.service
        await service.apply(ReconfigurationBody(what=LINKS))
        before = mirrors(world)
        await service.apply(ReconfigurationBody(what="sel:1A-1B,2A-2B"))
        after = mirrors(world)
        assert [name for name in before if before[name] != after[name]] == ["x1"], "one 2x2 in place of four selectors"

    in_world(test)


def test_an_element_that_says_no_brings_all_back(in_world: Callable[[Test], None]) -> None:
    async def test(world: World) -> None:
        assert world.daemon is not None
        service = world.daemon.service
        before = mirrors(world)
        world.faults.set(parse_fault({"switch": "b1", "fault": "deny", "code": "ERR"}))
        with pytest.raises(DeviceError, match=r"b1: .*Outcome: rolled-back"):
            await service.apply(ReconfigurationBody(what=LINKS))
        assert mirrors(world) == before

    in_world(test)


def test_what_somebody_takes_meanwhile_from_an_element_that_does_not_move_is_no_success(
    in_world: Callable[[Test], None],
) -> None:
    async def test(world: World) -> None:
        assert world.daemon is not None
        service = world.daemon.service
        await service.apply(ReconfigurationBody(what=LINKS))
        before = mirrors(world)
        theirs = parse_fault({"switch": "b1", "fault": "panel", "add": ["1A-1B"]})
        asyncio.get_running_loop().call_later(0.002, world.faults.set, theirs)
        with pytest.raises(FailedError, match=r"b1: .*1A-2B is not there.*Outcome: rolled-back"):
            await service.apply(ReconfigurationBody(what="sel:1A-1B,2A-2B"))  # moves x1 alone
        assert mirrors(world) == before | {"b1": ["1A-1B", *before["b1"][1:]]}

    in_world(test)


def test_a_lease_on_a_port_of_the_composite_holds_it_and_no_other(in_world: Callable[[Test], None]) -> None:
    async def test(world: World) -> None:
        assert world.daemon is not None
        service = world.daemon.service
        lease = await service.take_lease(holder="another", ports=["sel.2"], for_s=60)
        assert lease.ports == ["b1.2", "x1.2"]
        with pytest.raises(RefusedError, match=r"b1\.2: leased to another"):
            await service.apply(ReconfigurationBody(what=LINKS))
        await service.take_lease(holder="me", ports=["sel.1"], for_s=60)
        with pytest.raises(RefusedError, match=r"b1\.2, x1\.2: leased to another"):
            await service.take_lease(holder="me", ports=["x1.2", "b1.2"], for_s=60)
        with pytest.raises(ConfigError, match=r"no such port: sel\.3"):
            await service.take_lease(holder="me", ports=["sel.3"], for_s=60)

    in_world(test)


def test_a_lease_on_ports_of_an_element_holds_the_demands_that_lead_through_it(
    in_world: Callable[[Test], None],
) -> None:
    async def test(world: World) -> None:
        assert world.daemon is not None
        service = world.daemon.service
        await service.take_lease(holder="another", ports=["b1.2"], for_s=60)
        with pytest.raises(RefusedError, match=r"b1\.2: leased to another"):
            await service.apply(ReconfigurationBody(what=LINKS))

    in_world(test)


def test_what_a_crash_cut_off_is_brought_back_element_by_element(in_world: Callable[[Test], None]) -> None:
    async def test(world: World) -> None:
        assert world.daemon is not None
        service = world.daemon.service
        before = mirrors(world)
        await world.nodes.run_in_node("daemon", service.apply(ReconfigurationBody(what=LINKS, confirm_within_s=60)))
        assert mirrors(world) != before
        world.kill("daemon")
        await asyncio.sleep(60.0)
        world.start_daemon()
        await world.settled()
        await asyncio.sleep(2.0)
        assert "daemon.recovered" in [document.kind for document in world.documents]
        assert mirrors(world) == before

    in_world(test)
