"""The status screen's view of links: the last reports of switches, and what is unknown while one is down."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from hwd.daemon.installed_drivers import load
from hwd.fabric.fabric import Fabric
from hwd.model.answers import LinkStatus
from hwd.model.documents.hosts import HostBirth, HostDown, HostEvent, HostPort, HostUp
from hwd.web.linkboard import MONITORED_NS, Linkboard
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
from hwd_drivers.devices.facts import CrossconnectReport, SwitchDown, SwitchPower, SwitchRead, SwitchUp

EXAMPLE = Path(__file__).parents[2] / "examples" / "two-hosts.yaml"
TESTBED = load(EXAMPLE).require()
LINKS = ("h0.eth0<->h1.eth0", "h0.eth1<->h1.eth1")
UP = SwitchUp(switch="ocs1", vendor="Polatis", model="6000", serial="7", firmware="1", down_s=0.0)
PORT = HostPort(
    interface="enp1s0", present=True, ip=None, carrier=True, carrier_changes=0, probe_port=None, sources={}, rdma=None
)


WALL_NS = 1_700_000_000_000_000_000


class Boards:
    """Both boards of one testbed, told the same."""

    def __init__(self) -> None:
        self.switches = Switchboard(TESTBED.switches)
        self.links = Linkboard(
            Fabric(TESTBED),
            self.switches.reports,
            self.switches.made_wall_ns,
            lambda: WALL_NS + self.now_ns,
            powers_asked_wall_ns=lambda switch: self.asked_wall_ns,
        )
        self.now_ns = 0
        self.asked_wall_ns: int | None = None

    def tell(self, fact: Fact) -> None:
        document = Document(at_ns=self.now_ns, wall_ns=WALL_NS + self.now_ns, fact=fact)
        self.switches(document)
        self.links(document)

    def read(self, *pairs: str) -> None:
        told = [CrossconnectReport(id=pair, state=CrossconnectState.TUNED) for pair in pairs]
        before = self.switches.reports()[0].crossconnects
        added, removed = [one for one in pairs if one not in before], [one for one in before if one not in pairs]
        self.tell(SwitchRead(switch="ocs1", crossconnects=told, added=added, removed=removed, ours=True))

    def port(self) -> tuple[object, ...]:
        """Whether h1.eth0 is present, has a carrier, and its RDMA port is active."""
        port = self.links.ports("h1")["eth0"]
        return port.present, port.carrier, port.rdma

    def carriers(self, *hosts: str, boot: str = "b", **port: Any) -> None:
        """A birth of each host, with both of its ports."""
        for host in hosts or ("h0", "h1"):
            ports = dict.fromkeys(("eth0", "eth1"), msgspec.structs.replace(PORT, **port))
            self.tell(HostBirth(host=host, boot=boot, version="", ports=ports))

    def since(self) -> int | None:
        """Of the first link, in nanoseconds of `now_ns`."""
        since_ns = self.links.links()[0].since_wall_ns
        return None if since_ns is None else since_ns - WALL_NS

    def event(
        self,
        data: msgspec.Struct,
        *,
        kind: str = "",
        host: str = "h1",
        boot: str = "b",
        past: bool = False,
        at_ns: int = 0,
    ) -> None:
        """At eth0 of a host."""
        self.tell(
            HostEvent(
                host=host,
                boot=boot,
                seq=1,
                type=kind,
                port="eth0",
                earliest_ns=at_ns,
                latest_ns=at_ns,
                best_ns=at_ns,
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
    assert boards.links.links() == [
        LinkStatus(link=link, carrier=None, away=["ocs1"], since_wall_ns=WALL_NS) for link in LINKS
    ]


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


@pytest.fixture
def dark() -> Boards:
    """A switch without crossconnects, and two hosts whose ports have no carrier."""
    boards = Boards()
    for host in ("h0", "h1"):
        boards.tell(HostUp(host=host, boot="b"))
    boards.carriers(carrier=False, carrier_changes=4)
    boards.tell(UP)
    boards.read()
    return boards


def make(boards: Boards, at_ns: int) -> None:
    """The first link, seen at that time."""
    boards.now_ns = at_ns
    boards.read("1A-3B", "3A-1B")


def come_up(boards: Boards, *, h0_ns: int, h1_ns: int, seen_ns: int, changes: int = 5) -> None:
    """Carrier at both ends, by events that the daemon receives later."""
    boards.now_ns = seen_ns
    boards.event(CarrierData(carrier=True, carrier_changes=changes), host="h0", at_ns=h0_ns)
    boards.event(CarrierData(carrier=True, carrier_changes=changes), host="h1", at_ns=h1_ns)


def test_link_is_up_since_the_later_carrier_of_its_ends(dark: Boards) -> None:
    make(dark, 10)
    assert dark.since() is None, "its carriers were down when the agents connected"
    come_up(dark, h0_ns=30, h1_ns=20, seen_ns=99)
    assert dark.since() == 30
    dark.event(CarrierData(carrier=False, carrier_changes=6), at_ns=60)
    assert dark.since() == 60
    dark.event(CarrierData(carrier=False, carrier_changes=6), host="h0", at_ns=61)
    assert dark.since() == 60, "the first end that fell took it down"


def test_event_that_says_the_same_again_is_no_change(dark: Boards) -> None:
    make(dark, 10)
    come_up(dark, h0_ns=20, h1_ns=21, seen_ns=22)
    dark.event(CarrierData(carrier=True, carrier_changes=5), at_ns=40)
    assert dark.since() == 21
    dark.event(CarrierData(carrier=True, carrier_changes=7), at_ns=50)
    assert dark.since() == 50, "the kernel has counted a flap that nobody saw"


def test_link_whose_carriers_never_fell_is_up_since_it_was_made(dark: Boards) -> None:
    come_up(dark, h0_ns=5, h1_ns=6, seen_ns=7)
    make(dark, 10)
    assert dark.since() == 10


def test_carrier_that_was_there_when_the_agent_connected_has_no_beginning(boards: Boards) -> None:
    assert boards.since() is None
    boards.event(CarrierData(carrier=False, carrier_changes=1), at_ns=20)
    assert boards.since() == 20


def test_carrier_that_an_absent_agent_finds_unchanged_has_its_beginning_again(dark: Boards) -> None:
    make(dark, 10)
    come_up(dark, h0_ns=20, h1_ns=21, seen_ns=22)
    dark.now_ns = 40
    for host in ("h0", "h1"):
        dark.tell(HostDown(host=host, boot="b", cause="the broker is not connected"))
    assert dark.since() == 40, "unknown since then"
    dark.now_ns = 50
    dark.carriers(carrier=None, carrier_changes=None)
    assert dark.since() == 40
    dark.carriers(carrier=True, carrier_changes=5)
    assert dark.since() == 21


@pytest.mark.parametrize(
    "now",
    [
        {"carrier": True, "carrier_changes": 7},
        {"carrier": True, "carrier_changes": None},
        {"carrier": True, "carrier_changes": 5, "boot": "c"},
    ],
    ids=["counted", "not counted", "another boot"],
)
def test_carrier_that_may_have_changed_meanwhile_has_no_beginning(dark: Boards, now: dict[str, Any]) -> None:
    make(dark, 10)
    come_up(dark, h0_ns=20, h1_ns=21, seen_ns=22)
    for host in ("h0", "h1"):
        dark.tell(HostDown(host=host, boot="b", cause="will"))
    dark.carriers(**now)
    assert dark.links.links()[0].carrier is True
    assert dark.since() is None


def test_interface_that_is_gone_takes_its_link_down_at_that_time(dark: Boards) -> None:
    make(dark, 10)
    come_up(dark, h0_ns=20, h1_ns=21, seen_ns=22)
    dark.event(InterfaceData(present=False), at_ns=30)
    assert dark.since() == 30
    dark.event(InterfaceData(present=True), at_ns=40)
    assert dark.since() == 30


def test_link_is_unknown_since_the_first_switch_on_its_way_went_down(dark: Boards) -> None:
    make(dark, 10)
    come_up(dark, h0_ns=20, h1_ns=21, seen_ns=22)
    dark.now_ns = 60
    dark.tell(SwitchDown(switch="ocs1", cause="reset by peer"))
    assert dark.since() == 60
    dark.now_ns = 70
    dark.tell(UP)
    dark.read("1A-3B", "3A-1B")
    assert dark.since() == 21


def test_host_has_the_time_when_its_agent_came_or_went() -> None:
    boards = Boards()
    assert boards.links.since_wall_ns("h0") is None
    boards.tell(HostUp(host="h0", boot="b"))
    assert boards.links.since_wall_ns("h0") == WALL_NS
    boards.now_ns = 5
    boards.tell(HostDown(host="h0", boot="b", cause="will"))
    assert boards.links.since_wall_ns("h0") == WALL_NS + 5
    assert boards.links.since_wall_ns("h1") is None


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


def test_power_that_may_be_older_than_the_link_does_not_say_that_its_light_is_lost(dark: Boards) -> None:
    dark.tell(SwitchPower(switch="ocs1", power_dbm={"1A": 1.0, "3B": None, "3A": 1.0, "1B": None}))
    make(dark, 10)
    dark.now_ns = 10 + MONITORED_NS - 1
    assert not any("ocs1" in (words or "") for words in hangs(dark))
    dark.now_ns = 10 + MONITORED_NS
    assert "light is lost inside ocs1" in (hangs(dark)[0] or ""), "it was asked again, and nothing has changed"


SECOND = 10**9


def cut(boards: Boards, *, at_s: float) -> None:
    """The fibre from h1.eth0 to the switch is cut: h0.eth0 loses its light, and then its carrier."""
    at_ns = boards.now_ns = round(at_s * SECOND)
    boards.event(LightData(lanes=[None] * 4), kind="dark", host="h0", at_ns=at_ns)
    boards.event(CarrierData(carrier=False, carrier_changes=6), host="h0", at_ns=at_ns + 1)


def test_power_read_before_the_light_was_lost_is_no_evidence_and_has_its_age(dark: Boards) -> None:
    make(dark, 10)
    come_up(dark, h0_ns=20, h1_ns=21, seen_ns=22)
    powers: dict[str, float | None] = {"1A": 1.0, "1B": 1.0, "3A": 1.0, "3B": 1.0}
    dark.now_ns, dark.asked_wall_ns = 5 * SECOND, WALL_NS + 5 * SECOND
    dark.tell(SwitchPower(switch="ocs1", power_dbm=powers))
    cut(dark, at_s=7)
    dark.now_ns = 8 * SECOND
    words = hangs(dark)[0] or ""
    assert "ocs1.1B not read since, for 3.0 s" in words
    assert "between ocs1" not in words, "that it had light before the cut says nothing of now"
    dark.now_ns, dark.asked_wall_ns = 10 * SECOND, WALL_NS + 10 * SECOND
    dark.tell(SwitchPower(switch="ocs1", power_dbm={**powers, "3A": None, "1B": None}))
    words = hangs(dark)[0] or ""
    assert "not read since" not in words
    assert "no light at ocs1.3A" in words, "the fibre that was cut ends there"


def test_power_that_was_read_again_and_has_not_changed_is_evidence(dark: Boards) -> None:
    make(dark, 10)
    come_up(dark, h0_ns=20, h1_ns=21, seen_ns=22)
    dark.tell(SwitchPower(switch="ocs1", power_dbm={"1A": 1.0, "1B": 1.0, "3A": 1.0, "3B": 1.0}))
    cut(dark, at_s=7)
    dark.now_ns, dark.asked_wall_ns = 9 * SECOND, WALL_NS + 8 * SECOND
    assert "light is lost between ocs1.1B and h0.eth0.rx" in (hangs(dark)[0] or "")


def test_a_link_has_the_time_when_the_last_of_its_crossconnects_was_made(dark: Boards) -> None:
    dark.read("1A-3B")
    dark.now_ns = 7 * 10**9
    dark.read("1A-3B", "3A-1B")
    assert [one.made_wall_ns for one in dark.links.links()] == [WALL_NS + 7 * 10**9]
    dark.now_ns = 9 * 10**9
    dark.read("1A-3B", "3A-1B", "2A-4B", "4A-2B")
    assert [one.made_wall_ns for one in dark.links.links()] == [WALL_NS + 7 * 10**9, WALL_NS + 9 * 10**9]
