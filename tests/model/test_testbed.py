from dataclasses import replace

import pytest

from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Host, Module, NicPort, Strand, Testbed
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import FibreEnd, Side

from ..modules import LR4


def module(*, parallel: bool) -> Module:
    return replace(LR4, parallel=parallel)


def port(*, parallel: bool = False) -> NicPort:
    return NicPort(id=NicPortId(host="h0", port="eth0"), module=module(parallel=parallel), interface="eth0")


def test_lanes_share_a_fibre_or_have_one_each() -> None:
    assert [str(end) for end in port().ends(Side.TX)] == ["h0.eth0.tx"]
    assert [str(end) for end in port(parallel=True).ends(Side.RX)][1:3] == ["h0.eth0/2.rx", "h0.eth0/3.rx"]
    assert port().module.budget_db == pytest.approx(6.3)


def test_port_that_is_not_there_is_named_with_those_that_are() -> None:
    testbed = Testbed(name="t", switches={}, hosts={"h0": Host(name="h0", ports=(port(),))}, strands=())
    assert testbed.port(NicPortId.parse("h0.eth0")).interface == "eth0"
    with pytest.raises(ConfigError, match=r"h1\.eth0: no such NIC port in testbed t; it has h0\.eth0"):
        testbed.port(NicPortId.parse("h1.eth0"))


def test_strand_leads_from_each_end_to_the_other() -> None:
    tx = FibreEnd(owner="h0", port="eth0", side=Side.TX)
    into = FibreEnd(owner="ocs1", port="1", side=Side.A)
    strand = Strand(ends=(tx, into))
    assert (strand.other(tx), strand.other(into), str(strand)) == (into, tx, "h0.eth0.tx - ocs1.1A")
