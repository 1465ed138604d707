"""Links through a composite, on twins: lit, in the status, leased, rolled back, and recovered after a crash."""

import asyncio
from typing import Any

import pytest

from hwd.model.bodies import LeaseBody
from hwd.model.daemon import DaemonRecovered
from hwd_drivers.core.errors import ConfigError, FailedError, RefusedError
from hwd_drivers.core.structs import to_plain

from ..conftest import Lab, of_testbed

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
pytestmark = of_testbed(TEXT)


async def joined(lab: Lab) -> list[str]:
    """What the status says that the composite joins."""
    status: dict[str, Any] = to_plain(await lab.service.rack.status())
    return [one["id"] for composite in status["composites"] for one in composite["crossconnects"]]


async def test_a_link_comes_up_through_a_composite_and_the_status_says_what_it_joins(lab: Lab) -> None:
    assert await joined(lab) == ["1A-1B"]
    applied = await lab.apply("pairs", ready_within_s=5)
    assert (applied.outcome, applied.not_ready) == ("confirmed", [])
    assert sorted(await joined(lab)) == ["1A-2B", "2A-1B"]
    plan = await lab.plan(LINKS)
    assert plan.empty is True


async def test_the_fewest_elements_move(lab: Lab) -> None:
    await lab.apply(LINKS)
    before = lab.mirrors()
    await lab.apply("sel:1A-1B,2A-2B")
    after = lab.mirrors()
    assert [name for name in before if before[name] != after[name]] == ["x1"], "one 2x2 in place of four selectors"


async def test_what_somebody_takes_meanwhile_from_an_element_that_does_not_move_is_no_success(lab: Lab) -> None:
    await lab.apply(LINKS)
    before = lab.mirrors()
    theirs = {"switch": "b1", "fault": "panel", "add": ["1A-1B"]}
    asyncio.get_running_loop().call_later(0.002, lab.set_fault, theirs)
    with pytest.raises(FailedError, match=r"b1: .*1A-2B is not there.*Outcome: rolled-back"):
        await lab.apply("sel:1A-1B,2A-2B")  # moves x1 alone
    assert lab.mirrors() == before | {"b1": ["1A-1B", *before["b1"][1:]]}


async def test_a_lease_on_a_port_of_the_composite_or_of_an_element_holds_it_and_no_other(lab: Lab) -> None:
    lease = await lab.service.leases.take(LeaseBody(holder="another", ports=["sel.2"], for_s=60))
    assert lease.ports == ["b1.2", "x1.2"]
    with pytest.raises(RefusedError, match=r"b1\.2: leased to another"):
        await lab.apply(LINKS)
    await lab.lease("sel.1", holder="me", for_s=60)
    with pytest.raises(RefusedError, match=r"b1\.2, x1\.2: leased to another"):
        await lab.lease("x1.2", "b1.2", holder="me", for_s=60)
    with pytest.raises(ConfigError, match=r"no such port: sel\.3"):
        await lab.lease("sel.3", holder="me", for_s=60)
    await asyncio.sleep(61)
    await lab.lease("b1.2", holder="another", for_s=60)
    with pytest.raises(RefusedError, match=r"b1\.2: leased to another"):
        await lab.apply(LINKS)


async def test_what_a_crash_cut_off_is_brought_back_element_by_element(lab: Lab) -> None:
    before = lab.mirrors()
    await lab.apply(LINKS, confirm_within_s=60)
    assert lab.mirrors() != before
    await lab.restart(after_s=60.0)
    await asyncio.sleep(2.0)
    assert lab.emitted(DaemonRecovered)
    assert lab.mirrors() == before
