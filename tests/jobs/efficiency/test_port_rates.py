"""Rates of NIC ports: as agents read them, else as the testbed file states them."""

from pathlib import Path
from typing import Any

import pytest

from hwd.config.testbed.testbed import load_testbed
from hwd.jobs.efficiency.port_rates import PortRates, packet_switches
from hwd.model.documents.hosts import HostBirth, HostEvent
from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Testbed
from hwd_agents.wire import Inventory
from hwd_agents.wire.events import LinkStateData
from hwd_agents.wire.inventory import NicNote
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.devices import registry

TEXT = """
testbed: lab
switches:
  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: ideal, seed: 1}}
packet_switches: {eps1: {ports: 8, rate_mbit_s: 1000}, eps2: {ports: 8}}
hosts:
  h0:
    nics:
      eth0: {module: 100g-lr4}
      eth1: {module: 100g-lr4, rate_mbit_s: 50000}
      eth2: {module: 100g-lr4, rate_mbit_s: 40000}
      eth3: {module: 100g-lr4, rate_mbit_s: 25000}
fibres:
  - h0.eth0 <-> ocs1.1
  - h0.eth1 <-> ocs1.2
  - h0.eth2 <-> eps1.1
  - h0.eth3 <-> eps2.1
"""
PORTS = [NicPortId(host="h0", port=f"eth{n}") for n in range(4)]


@pytest.fixture
def testbed(tmp_path: Path) -> Testbed:
    path = tmp_path / "testbed.yaml"
    path.write_text(TEXT)
    return load_testbed(path, {name: registry.find(name) for name in registry.names()}).require()


def tell(rates: PortRates, fact: Fact) -> None:
    rates(Document(at_ns=0, wall_ns=0, fact=fact))


def link(speed_mbps: int | None) -> LinkStateData:
    return LinkStateData(
        up=speed_mbps is not None, why_down=None, detail=None, downs=0, autoneg=True, speed_mbps=speed_mbps, fec=None
    )


def changed(speed_mbps: int | None) -> HostEvent:
    stamps: dict[str, Any] = dict.fromkeys(("seq", "earliest_ns", "latest_ns", "best_ns", "agent_ns"), 1)
    return HostEvent(
        **stamps,
        host="h0",
        boot="b",
        type="link-state",
        port="eth1",
        origin="nic",
        source="ethtool",
        data=link(speed_mbps),
    )


def born(**inventory: Any) -> HostBirth:
    return HostBirth(host="h0", boot="b", version="", ports={}, inventory=Inventory(**inventory))


def test_what_an_agent_reads_counts_before_what_is_stated_and_outlasts_a_dark_link(testbed: Testbed) -> None:
    rates = PortRates()
    stated = {"h0.eth1": 50_000, "h0.eth2": 1000, "h0.eth3": 25_000}
    assert rates.of(testbed, PORTS) == stated
    tell(rates, born(nics={"eth0": NicNote(speed_mbps=100_000)}, links={"eth1": link(None)}))
    assert rates.of(testbed, PORTS) == {**stated, "h0.eth0": 100_000}
    for speed in (10_000, None):
        tell(rates, changed(speed))
        assert rates.of(testbed, PORTS[1:2]) == {"h0.eth1": 10_000}
    tell(rates, HostBirth(host="h0", boot="c", version="", ports={}))
    assert rates.of(testbed, PORTS[:1]) == {"h0.eth0": 100_000}


def test_packet_switches_are_those_at_the_other_ends_of_fibres(testbed: Testbed) -> None:
    assert packet_switches(testbed, PORTS) == {"h0.eth2": "eps1", "h0.eth3": "eps2"}
