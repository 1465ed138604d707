"""A testbed of two switches and two hosts, of which the first ones are twins."""

import pytest

from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Host, HostTwin, NicPort, Setting, Switch, SwitchTwin, Testbed

from ..capabilities import both_sides, capabilities
from ..modules import LR4


def host(name: str, twin: HostTwin | None) -> Host:
    ports = (NicPort(id=NicPortId(host=name, port=port), module=LR4, interface=port) for port in ("eth0", "eth1"))
    return Host(name=name, ports=tuple(ports), twin=twin)


def switch(name: str, twin: SwitchTwin | None) -> Switch:
    return Switch(name=name, driver="d", model="m", capabilities=capabilities(both_sides(1)), twin=twin)


@pytest.fixture(scope="session")
def testbed() -> Testbed:
    return Testbed(
        name="t",
        switches={"ocs1": switch("ocs1", SwitchTwin(timing="ideal", seed=0)), "ocs2": switch("ocs2", None)},
        hosts={"h0": host("h0", HostTwin(kernel=False, timing="ideal", seed=0)), "h1": host("h1", None)},
        strands=(),
        host_actions=(Setting.MTU,),
    )
