from collections.abc import Callable

from hwd.fabric.fabric import Fabric
from hwd.model.link import Link
from hwd.model.testbed import Testbed
from hwd.ports.claims import all_ports, conflicts, ports_of
from hwd.ports.lease import Lease

NOW = 1_000


def lease(id: str, holder: str, *ports: str, expires: int = 2_000) -> Lease:
    return Lease(id=id, holder=holder, ports=frozenset(ports), taken_wall_ns=int(id), expires_wall_ns=expires)


def test_lease_of_another_holder_is_in_the_way() -> None:
    leases = [lease("2", "bob", "ocs1.1"), lease("1", "carol", "ocs1.2", "ocs1.3")]
    found = conflicts(leases, frozenset({"ocs1.1", "ocs1.2"}), holder="alice", now_wall_ns=NOW)
    assert [str(conflict) for conflict in found] == ["ocs1.2: leased to carol (1)", "ocs1.1: leased to bob (2)"]


def test_own_lease_and_expired_lease_are_not() -> None:
    leases = [lease("1", "alice", "ocs1.1"), lease("2", "bob", "ocs1.1", expires=NOW)]
    assert conflicts(leases, frozenset({"ocs1.1"}), holder="alice", now_wall_ns=NOW) == ()


def test_ports_of_links_are_switch_and_nic_ports(star: Callable[..., Testbed]) -> None:
    testbed = star(2, 1, size=4)
    routed = Fabric(testbed).route(Link.parse("h0.eth0<->h1.eth0"))
    assert ports_of([routed]) == {"ocs1.1", "ocs1.2", "h0.eth0", "h1.eth0"}
    assert all_ports(testbed) == {"ocs1.1", "ocs1.2", "ocs1.3", "ocs1.4", "h0.eth0", "h1.eth0"}
