"""Whose ports a plan touches beyond its links: light of one way, and light through a switch that was not read."""

import dataclasses

import pytest

from hwd_drivers.core.errors import RefusedError

from ..conftest import EXAMPLE, Lab, wanted
from .conftest import Desk

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


def test_light_of_one_way_is_touched_where_it_is_taken_and_where_it_is_given() -> None:
    desk = Desk(EXAMPLE)
    taken = desk.plan("ocs1:1A-5B", {"ocs1": "1A-3B"})
    assert taken.dark == ()
    assert taken.touches == {"ocs1.1", "ocs1.3", "ocs1.5", "h0.eth0", "h1.eth0"}
    given = desk.plan("ocs1:1A-3B", {"ocs1": ""})
    assert given.touches == {"ocs1.1", "ocs1.3", "h0.eth0", "h1.eth0"}


def test_a_switch_that_was_not_read_may_carry_the_light_on() -> None:
    desk = Desk(BEHIND)
    there = {"ocs1": "1A-8B 8A-1B"}
    assert "h1.eth0" in desk.plan("ocs1:1A-5B", there).touches
    assert "h1.eth0" not in desk.plan("ocs1:1A-5B", {**there, "ocs2": ""}).touches


def test_what_is_touched_is_not_in_the_hash() -> None:
    desk = Desk(EXAMPLE)
    made = desk.plan("ocs1:1A-5B", {"ocs1": "1A-3B"})
    assert dataclasses.replace(made, touches=frozenset()).hash == made.hash


async def test_neither_a_link_nor_half_a_link_of_another_lease_goes_dark(lab: Lab) -> None:
    await lab.apply("ocs1:1A-3B")
    await lab.lease("h1.eth0", for_s=60)
    with pytest.raises(RefusedError, match=r"h1\.eth0: leased to ada"):
        await lab.apply("ocs1:1A-5B")
    with pytest.raises(RefusedError, match=r"h1\.eth0: leased to ada"):
        await lab.apply("ocs1:2A-3B")
    assert lab.light() == wanted("ocs1:1A-3B")
    await lab.apply("ocs1:2A-4B,4A-2B", ready_within_s=15)
    await lab.lease("h1.eth1", holder="ben")
    with pytest.raises(RefusedError, match=r"h1\.eth1: leased to ben"):
        await lab.apply("ocs1:2A-5B")
    assert lab.light() == wanted("ocs1:1A-3B,2A-4B,4A-2B")
