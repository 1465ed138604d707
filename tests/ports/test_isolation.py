"""The proof that a plan touches no circuit of somebody else's lease: by the path of its light, not by ports alone."""

from collections.abc import Callable

from hwd.fabric.fabric import Fabric
from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Testbed
from hwd.ports.claim import Claim, lease
from hwd.ports.isolation import breach, isolation
from hwd.ports.testbed_ports import all_ports, ports_of
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.switching.moves import SwitchMoves

SOURCE, TARGET = NicPortId(host="h0", port="eth0"), NicPortId(host="h1", port="eth0")


def at(switch: str, pair: str) -> SwitchCrossconnect:
    return SwitchCrossconnect(switch=switch, crossconnect=Crossconnect.parse(pair))


PATH = {(SOURCE, TARGET): frozenset({at("ocs1", "1A-2B"), at("ocs2", "3A-4B")})}


def leased(*ports: str) -> Claim:
    return lease(id="l1", holder="ada", ports=frozenset(ports), taken_wall_ns=0, expires_wall_ns=1)


def moves(switch: str, pair: str) -> SwitchMoves:
    one = Crossconnect.parse(pair)
    return SwitchMoves(switch=switch, remove=(one,), add=(), keep=(), before=(one,))


def test_move_elsewhere_on_the_path_of_a_leased_port_is_found_and_named() -> None:
    found = isolation(PATH, [leased("ocs2.4")], [moves("ocs1", "1A-2B")], frozenset({"ocs1.1", "ocs1.2"}), ())
    assert [one.touched for one in found.circuits] == [["ocs1.1", "ocs1.2", "ocs1:1A-2B"]]
    assert breach(found) == (
        "ocs1.1, ocs1.2, ocs1:1A-2B: is on the path of h0.eth0 -> h1.eth0, which is leased to ada (l1). "
        "Wait, ask ada to release it, or plan another way"
    )


def test_move_off_the_path_is_proven_to_touch_nothing() -> None:
    found = isolation(PATH, [leased("h1.eth0")], [moves("ocs1", "5A-6B")], frozenset({"ocs1.5", "ocs1.6"}), ["ocs3"])
    assert (breach(found), [one.through for one in found.circuits]) == (None, [["ocs1:1A-2B", "ocs2:3A-4B"]])
    assert str(found) == "no move touches the 1 circuit of ada (l1); unknown on ocs3, not read now"


def test_circuit_of_nobody_is_not_listed() -> None:
    assert isolation(PATH, [leased("ocs1.9")], [moves("ocs1", "1A-2B")], frozenset({"ocs1.1"}), ()).circuits == []


def test_ports_of_links_are_switch_and_nic_ports(star: Callable[..., Testbed]) -> None:
    testbed = star(2, 1, size=4)
    routed = Fabric(testbed).routes([Link.parse("h0.eth0<->h1.eth0")])[0]
    assert ports_of([routed]) == {"ocs1.1", "ocs1.2", "h0.eth0", "h1.eth0"}
    assert all_ports(testbed) == {"ocs1.1", "ocs1.2", "ocs1.3", "ocs1.4", "h0.eth0", "h1.eth0"}
