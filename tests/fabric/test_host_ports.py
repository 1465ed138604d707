"""Ports of a host that are behind its own switches."""

from pathlib import Path

import pytest

from hwd.daemon.installed_drivers import load
from hwd.fabric.fabric import Fabric
from hwd.fabric.host_ports import ports_behind
from hwd.fabric.neighbour import state_with_link
from hwd.model.nic_port import NicPortId
from hwd_drivers.core.values import Crossconnect

EXAMPLE = Path(__file__).parents[2] / "examples" / "own-switches.yaml"
ROW = """
testbed: row
switches:
  near: {driver: osw, model: osw, size: 1x4, owner: h0, twin: {timing: ideal, seed: 1}}
  far: {driver: osw, model: osw, size: 1x4, owner: h0, twin: {timing: ideal, seed: 2}}
  lone: {driver: osw, model: osw, size: 1x4, owner: h0, twin: {timing: ideal, seed: 3}}
passives: {pp1: {kind: panel, ports: 8, loss_db: 0.3}}
hosts:
  h0:
    twin: {seed: 1}
    nics:
      eth0: {ip: 10.1.0.1/32, module: 100g-lr4}
      eth1: {ip: 10.1.0.2/32, module: 100g-lr4}
  h1:
    twin: {seed: 2}
    nics: {eth0: {ip: 10.1.1.1/32, module: 100g-lr4}}
fibres:
  - {from: h0.eth1.tx, to: near.in, via: [pp1.3]}
  - near.1 -> far.in
  - far.1 -> h1.eth0.rx
  - h1.eth0.tx -> h0.eth1.rx
"""


def test_ports_are_behind_the_switch_that_a_fibre_joins_them_to() -> None:
    testbed = load(EXAMPLE).require()
    assert ports_behind(testbed, "h0") == {"tx0": ("eth0",), "rx0": ("eth0",)}
    assert ports_behind(testbed, "h1") == {"tx1": ("eth0",), "rx1": ("eth0",)}


def test_a_second_switch_in_a_row_leads_the_light_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "row.yaml"
    path.write_text(ROW)
    testbed = load(path).require()
    assert ports_behind(testbed, "h0") == {"near": ("eth1",), "far": ("eth1",), "lone": ()}
    assert ports_behind(testbed, "h1") == {}


@pytest.mark.parametrize(
    ("mine", "theirs"), [("in-2", "in-1"), ("in-1", None), ("in-4", "in-1")], ids=["stale", "unknown", "nowhere"]
)
def test_the_far_end_of_a_port_that_came_up_stood_where_its_light_leads(mine: str, theirs: str | None) -> None:
    testbed = load(EXAMPLE).require()
    fabric = Fabric(testbed)
    one = Crossconnect.parse(mine)
    state = {"tx0": [one], "rx0": [one], **({} if theirs is None else {"tx1": [Crossconnect.parse(theirs)]})}
    port = NicPortId(host="h0", port="eth0")
    completed = state_with_link(fabric, port, state, {"tx1", "rx1"})
    links = [str(link) for link in fabric.links_of(completed)]
    if mine == "in-4":  # nothing is there: no carrier proves anything
        assert links == []
        assert completed["tx1"] == {Crossconnect.parse("in-1")}
    else:
        assert links == ["h0.eth0<->h1.eth0"]
        assert completed["tx1"] == completed["rx1"] == {one}
