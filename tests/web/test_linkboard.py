"""The status screen's view of links: the last reports of switches, and what is unknown while one is down."""

from pathlib import Path

import msgspec
import pytest

from hwd.daemon.installed_drivers import load
from hwd.fabric.fabric import Fabric
from hwd.model.answers import LinkStatus
from hwd.model.documents.hosts import HostBirth, HostDown, HostEvent, HostPort
from hwd.web.linkboard import Linkboard
from hwd.web.switchboard import Switchboard
from hwd_agents.wire.events import CarrierData, InterfaceData, RdmaData
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.values import CrossconnectState
from hwd_drivers.devices.facts import CrossconnectReport, SwitchDown, SwitchRead, SwitchUp

EXAMPLE = Path(__file__).parents[2] / "examples" / "two-hosts.yaml"
TESTBED = load(EXAMPLE).require()
LINKS = ("h0.eth0<->h1.eth0", "h0.eth1<->h1.eth1")
UP = SwitchUp(switch="ocs1", vendor="Polatis", model="6000", serial="7", firmware="1", down_s=0.0)
PORT = HostPort(
    interface="enp1s0", present=True, ip=None, carrier=True, carrier_changes=0, probe_port=None, sources={}, rdma=None
)


class Boards:
    """Both boards of one testbed, told the same."""

    def __init__(self) -> None:
        self.switches = Switchboard(TESTBED.switches)
        self.links = Linkboard(Fabric(TESTBED), self.switches.reports)

    def tell(self, fact: Fact) -> None:
        document = Document(at_ns=0, wall_ns=0, fact=fact)
        self.switches(document)
        self.links(document)

    def read(self, *pairs: str) -> None:
        told = [CrossconnectReport(id=pair, state=CrossconnectState.TUNED) for pair in pairs]
        self.tell(SwitchRead(switch="ocs1", crossconnects=told, added=[*pairs], removed=[], ours=True))

    def port(self) -> tuple[object, ...]:
        """Whether h1.eth0 is present, has a carrier, and its RDMA port is active."""
        port = self.links.ports("h1")["eth0"]
        return port.present, port.carrier, port.rdma

    def event(self, data: msgspec.Struct, *, boot: str = "b", past: bool = False) -> None:
        """At h1.eth0."""
        self.tell(
            HostEvent(
                host="h1",
                boot=boot,
                seq=1,
                type="",
                port="eth0",
                earliest_ns=0,
                latest_ns=0,
                best_ns=0,
                agent_ns=0,
                origin="twin",
                source="link",
                past=past,
                data=data,
            )
        )


@pytest.fixture
def boards() -> Boards:
    """One switch with two links, and carrier at all four ports."""
    boards = Boards()
    for host in ("h0", "h1"):
        ports = dict.fromkeys(("eth0", "eth1"), PORT)
        boards.tell(HostBirth(host=host, boot="b", version="", ports=ports))
    boards.tell(UP)
    boards.read("1A-3B", "3A-1B", "2A-4B", "4A-2B")
    return boards


def test_links_of_a_switch_that_is_up_have_the_carrier_of_their_ends(boards: Boards) -> None:
    assert boards.links.links() == [LinkStatus(link=link, carrier=True) for link in LINKS]


def test_links_of_a_switch_that_is_down_stay_and_are_unknown(boards: Boards) -> None:
    boards.tell(SwitchDown(switch="ocs1", cause="reset by peer"))
    assert boards.links.links() == [LinkStatus(link=link, carrier=None, away=["ocs1"]) for link in LINKS]


def test_a_switch_that_came_back_empty_has_no_links(boards: Boards) -> None:
    boards.tell(SwitchDown(switch="ocs1", cause="reset by peer"))
    boards.tell(UP)
    boards.read()
    assert boards.links.links() == []


def test_ports_follow_the_events_of_the_present_boot_of_their_agent(boards: Boards) -> None:
    boards.event(RdmaData(active=True))
    boards.event(CarrierData(carrier=False), past=True)
    boards.event(CarrierData(carrier=False), boot="a", past=True)
    assert boards.port() == (True, True, True)
    boards.event(CarrierData(carrier=False))
    assert boards.links.links()[0].carrier is False


def test_port_whose_interface_is_gone_has_no_carrier(boards: Boards) -> None:
    boards.event(InterfaceData(present=False))
    boards.event(CarrierData(carrier=True))
    assert boards.port() == (False, False, None)
    boards.event(InterfaceData(present=True))
    boards.event(CarrierData(carrier=True))
    assert boards.port() == (True, True, None)


def test_carrier_is_unknown_while_the_agent_is_away(boards: Boards) -> None:
    boards.tell(HostDown(host="h1", boot="b", cause="will"))
    assert [one.carrier for one in boards.links.links()] == [None, None]
