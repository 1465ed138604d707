"""A testbed of two switches and two hosts, of which the first ones are twins."""

import pytest

from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Host, HostTwin, NicPort, Setting, Switch, SwitchTwin, Testbed
from hwd_drivers.core.values import Capabilities, PortSide

from ..modules import LR4

CAPABILITIES = Capabilities(
    ends=(PortSide.parse("1A"), PortSide.parse("1B")),
    two_sided=True,
    reciprocal=False,
    latching=False,
    atomic_batches=True,
    moves_in_use=True,
    settle_s=0.01,
    loss_db_typical=0.9,
    loss_db_max=2.0,
)


def host(name: str, twin: HostTwin | None) -> Host:
    ports = (NicPort(id=NicPortId(host=name, port=port), module=LR4, interface=port) for port in ("eth0", "eth1"))
    return Host(name=name, ports=tuple(ports), twin=twin)


def switch(name: str, twin: SwitchTwin | None) -> Switch:
    return Switch(name=name, driver="d", model="m", capabilities=CAPABILITIES, twin=twin)


@pytest.fixture(scope="session")
def testbed() -> Testbed:
    return Testbed(
        name="t",
        switches={"ocs1": switch("ocs1", SwitchTwin(timing="ideal", seed=0)), "ocs2": switch("ocs2", None)},
        hosts={"h0": host("h0", HostTwin(kernel=False, timing="ideal", seed=0)), "h1": host("h1", None)},
        strands=(),
        host_actions=(Setting.MTU,),
    )
