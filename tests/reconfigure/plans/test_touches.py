"""Whose ports a plan touches beyond its links: light of one way, and light through a switch that was not read."""

import dataclasses
from pathlib import Path

import pytest

from hwd.config.testbed.wanted_state import parse_what
from hwd.daemon.installed_drivers import load
from hwd.fabric.fabric import Fabric
from hwd.model.plan import Plan
from hwd.model.request import Request
from hwd.model.state import Observed
from hwd.model.testbed import Testbed
from hwd.reconfigure.plans.planner import Planner
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState

from ..conftest import EXAMPLE, Lab, RunLab

BEHIND = """\
testbed: behind
switches:
  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, address: "10.0.0.5"}
  ocs2: {driver: polatis-tl1, model: polatis-6000, size: 8x8, address: "10.0.0.6"}
hosts:
  h0: {nics: {eth0: {module: 100g-lr4}}}
  h1: {nics: {eth0: {module: 100g-lr4}}}
fibres:
  - h0.eth0 <-> ocs1.1
  - h1.eth0 <-> ocs2.1
  - ocs1.8 <-> ocs2.8
"""


def readings(text: str) -> tuple[CrossconnectReading, ...]:
    return tuple(
        CrossconnectReading(crossconnect=Crossconnect.parse(one), state=CrossconnectState.UNSTATED)
        for one in text.split()
    )


def plan(testbed: Testbed, what: str, observed: Observed) -> Plan:
    planner = Planner(testbed, Fabric(testbed), lambda switches, links: (0.0, ""))
    wanted = parse_what(what, testbed)
    request = Request(wanted=wanted)
    return planner.plan(planner.route(request), observed)


def test_light_of_one_way_is_touched_where_it_is_taken_and_where_it_is_given() -> None:
    testbed = load(EXAMPLE).require()
    taken = plan(testbed, "ocs1:1A-5B", {"ocs1": readings("1A-3B")})
    assert taken.dark == ()
    assert taken.touches == {"ocs1.1", "ocs1.3", "ocs1.5", "h0.eth0", "h1.eth0"}
    given = plan(testbed, "ocs1:1A-3B", {"ocs1": ()})
    assert given.touches == {"ocs1.1", "ocs1.3", "h0.eth0", "h1.eth0"}


def test_a_switch_that_was_not_read_may_carry_the_light_on(tmp_path: Path) -> None:
    path = tmp_path / "behind.yaml"
    path.write_text(BEHIND)
    testbed = load(path).require()
    there = {"ocs1": readings("1A-8B 8A-1B")}
    assert "h1.eth0" in plan(testbed, "ocs1:1A-5B", there).touches
    assert "h1.eth0" not in plan(testbed, "ocs1:1A-5B", {**there, "ocs2": ()}).touches


def test_what_is_touched_is_not_in_the_hash() -> None:
    testbed = load(EXAMPLE).require()
    made = plan(testbed, "ocs1:1A-5B", {"ocs1": readings("1A-3B")})
    assert dataclasses.replace(made, touches=frozenset()).hash == made.hash


def test_half_a_link_of_another_lease_does_not_go_dark(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await lab.service.apply(lab.request("ocs1:1A-3B"))
        await lab.service.take_lease(holder="ada", ports=["h1.eth0"], for_s=60)
        with pytest.raises(RefusedError, match=r"h1\.eth0: leased to ada"):
            await lab.service.apply(lab.request("ocs1:1A-5B"))
        with pytest.raises(RefusedError, match=r"h1\.eth0: leased to ada"):
            await lab.service.apply(lab.request("ocs1:2A-3B"))
        assert lab.light() == "ocs1:1A-3B"

    run_lab(test)
