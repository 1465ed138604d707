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
from hwd_agents.wire import Inventory
from hwd_agents.wire.events import (
    CarrierData,
    FirmwareData,
    InterfaceData,
    LightData,
    LinkStateData,
    MonitorData,
    RdmaData,
)
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

    def event(self, data: msgspec.Struct, *, kind: str = "", boot: str = "b", past: bool = False) -> None:
        """At h1.eth0."""
        self.tell(
            HostEvent(
                host="h1",
                boot=boot,
                seq=1,
                type=kind,
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


def hangs(boards: Boards) -> list[str | None]:
    return [None if one.hang is None else str(one.hang) for one in boards.links.links()]


def test_light_firmware_and_powers_follow_the_birth_and_the_events_of_an_agent(boards: Boards) -> None:
    monitors = MonitorData(
        rx_power_dbm=[1.0, 1.2, 1.4, 1.6], tx_power_dbm=[2.0] * 4, bias_ma=[60.0] * 4, temperature_c=35.0
    )
    states: dict[str, bool | None] = {"light": True, "firmware": False, "carrier": False, "rdma": False}
    inventory = Inventory(states={"eth0": states}, monitors={"eth0": monitors})
    down = msgspec.structs.replace(PORT, carrier=False)
    boards.tell(HostBirth(host="h1", boot="b", version="", ports={"eth0": down, "eth1": PORT}, inventory=inventory))
    link = "h0.eth0<->h1.eth0"
    light = "the PHY is down; light is there (h1.eth0.rx 1.0 to 1.6 dBm a lane)"
    assert hangs(boards) == [f"{link} hangs at h1.eth0, firmware: {light}", None]
    boards.event(LinkStateData(
        up=False, why_down="autoneg", detail="no partner detected", downs=None, autoneg=None, speed_mbps=None, fec=None
    ))  # fmt: skip
    said = light.replace(" (", "; h1.eth0 says: autoneg, no partner detected (")
    assert hangs(boards)[0] == f"{link} hangs at h1.eth0, firmware: {said}"
    boards.event(FirmwareData(up=True))
    assert hangs(boards)[0] == (
        f"{link} hangs at h1.eth0, carrier: carrier at h0.eth0 only; h1.eth0 says: autoneg, no partner detected "
        "(h1.eth0.rx 1.0 to 1.6 dBm a lane)"
    )
    boards.event(LightData(lanes=[1.0, None, 1.4, 1.6]), kind="dark")
    assert hangs(boards)[0] == (
        f"{link} hangs at h1.eth0, optical: no light at h1.eth0.rx, and nothing is known of it before "
        "(h1.eth0.rx 1.0 to 1.6 dBm a lane, dark on lane 2)"
    )
    boards.event(CarrierData(carrier=True))
    assert hangs(boards)[0] == (
        f"{link} hangs at h1.eth0, rdma: carrier is there, the RDMA port of h1.eth0 is not active"
    )
    boards.event(RdmaData(active=True))
    assert hangs(boards)[0] is None, "an end with carrier has passed all before"


def test_nothing_is_known_of_the_light_of_a_host_whose_agent_is_away(boards: Boards) -> None:
    boards.event(CarrierData(carrier=False))
    boards.event(LightData(lanes=[None] * 4), kind="dark")
    assert hangs(boards)[0] is not None
    boards.tell(HostDown(host="h1", boot="b", cause="will"))
    assert hangs(boards) == [None, None]
    boards.tell(
        HostBirth(host="h1", boot="b", version="", ports={"eth0": msgspec.structs.replace(PORT, carrier=False)})
    )
    assert hangs(boards)[0] == (
        "h0.eth0<->h1.eth0 hangs at h1.eth0, carrier: carrier at h0.eth0 only; "
        "light at h1.eth0 is unknown: nothing was heard of it; firmware at h1.eth0 is unknown: nothing was heard of it"
    )


def test_interface_that_is_gone_is_named(boards: Boards) -> None:
    boards.event(InterfaceData(present=False))
    assert hangs(boards)[0] == "h0.eth0<->h1.eth0 hangs at h1.eth0, carrier: there is no interface enp1s0"


def test_link_over_a_switch_that_is_away_hangs_nowhere(boards: Boards) -> None:
    boards.event(CarrierData(carrier=False))
    boards.tell(SwitchDown(switch="ocs1", cause="reset by peer"))
    assert hangs(boards) == [None, None]
