from collections.abc import Callable

from hwd.fabric.fabric import Fabric
from hwd.model.link import Link
from hwd.model.testbed import Testbed
from hwd.ports.testbed_ports import all_ports, ports_of


def test_ports_of_links_are_switch_and_nic_ports(star: Callable[..., Testbed]) -> None:
    testbed = star(2, 1, size=4)
    routed = Fabric(testbed).route(Link.parse("h0.eth0<->h1.eth0"))
    assert ports_of([routed]) == {"ocs1.1", "ocs1.2", "h0.eth0", "h1.eth0"}
    assert all_ports(testbed) == {"ocs1.1", "ocs1.2", "ocs1.3", "ocs1.4", "h0.eth0", "h1.eth0"}
