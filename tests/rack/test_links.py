"""The status screen's view of links: the last reports of switches, and what is unknown while one is down."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from hwd.daemon.installed_drivers import load, load_text
from hwd.fabric.fabric import Fabric
from hwd.model.host import HostBirth, HostDown, HostEvent, HostUp
from hwd.model.switch import LinkStatus
from hwd.model.testbed import Testbed
from hwd.rack import links
from hwd.rack.links import MONITORED_NS
from hwd.rack.nic_ports import NicPorts
from hwd.rack.switches import ReportedSwitches
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
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState
from hwd_drivers.devices.facts import SwitchDown, SwitchPower, SwitchRead, SwitchUp

from ..answers import check_golden
from ..texts import by_end, host_port

STORIES_SAID = Path(__file__).with_name("link_stories.txt")
EXAMPLE = Path(__file__).parents[2] / "examples" / "two-hosts.yaml"
TESTBED = load(EXAMPLE).require()
UP = SwitchUp(switch="ocs1", vendor="Polatis", model="6000", serial="7", firmware="1", down_s=0.0)
DOWN = SwitchDown(switch="ocs1", cause="reset by peer")
PORT = host_port(interface="enp1s0")
NO_PORT = msgspec.structs.replace(PORT, present=False, carrier=None)
HOSTS = ("h0", "h1")
FIRST, BOTH = ("1A-3B", "3A-1B"), ("1A-3B", "3A-1B", "2A-4B", "4A-2B")
WALL_NS = 1_700_000_000_000_000_000
SECOND = 10**9

Step = tuple[int, Fact | str]
"""When the daemon hears of a fact, in nanoseconds; or of "asked", when it asks the switch for powers; or of nothing."""


class Rack:
    """Switches, ports and links of one testbed, told the same."""

    def __init__(self) -> None:
        self.switches = ReportedSwitches(TESTBED.switches)
        self.ports = NicPorts()
        self.links = links.Links(
            Fabric(TESTBED),
            self.switches,
            self.ports,
            lambda: WALL_NS + self.now_ns,
            powers_asked_wall_ns=lambda switch: self.asked_wall_ns,
        )
        self.now_ns = 0
        self.asked_wall_ns: int | None = None

    def take(self, at_ns: int, told: Fact | str) -> None:
        self.now_ns = at_ns
        if told == "asked":
            self.asked_wall_ns = WALL_NS + at_ns
        if isinstance(told, str):
            return
        if isinstance(told, SwitchRead):
            now, before = [one.crossconnect for one in told.crossconnects], self.switches.reports()[0].crossconnects
            added, removed = [one for one in now if one not in before], [one for one in before if one not in now]
            told = msgspec.structs.replace(told, added=added, removed=removed)
        document = Document(at_ns=at_ns, wall_ns=WALL_NS + at_ns, fact=told)
        self.switches(document)
        self.ports(document)
        self.links(document)

    def shown(self) -> dict[str, str]:
        """Links by name, the port that stories are about, and hosts."""
        known = self.ports.of_host("h1").get("eth0")
        port = NO_PORT if known is None else known.as_host_port
        return {
            **{one.link: "".join(_words(one)) for one in self.links.each()},
            "port h1.eth0": f"present {port.present}, carrier {port.carrier}, rdma {port.rdma}",
            **{f"host {host}": f"since {_time(self.ports.since_wall_ns(host))}" for host in HOSTS},
        }


def _time(wall_ns: int | None) -> str:
    return "an unknown time" if wall_ns is None else str(wall_ns - WALL_NS)


def _words(link: LinkStatus) -> Iterator[str]:
    yield f"carrier {link.carrier} since {_time(link.since_wall_ns)}, made at {_time(link.made_wall_ns)}"
    yield f", away: {', '.join(link.away)}" if link.away else ""
    yield f"\n      {link.hang}" if link.hang is not None else ""


def pairs(*pairs: str) -> SwitchRead:
    told = [CrossconnectReading(crossconnect=Crossconnect.parse(pair), state=CrossconnectState.TUNED) for pair in pairs]
    return SwitchRead(switch="ocs1", crossconnects=told, added=[], removed=[], ours=True)


def birth(host: str, *, boot: str = "b", inventory: Inventory | None = None, **port: Any) -> HostBirth:
    ports = dict.fromkeys(("eth0", "eth1"), msgspec.structs.replace(PORT, **port))
    more: dict[str, Any] = {} if inventory is None else {"inventory": inventory}
    return HostBirth(host=host, boot=boot, version="", ports=ports, **more)


def births(at_ns: int, **port: Any) -> list[Step]:
    return [(at_ns, birth(host, **port)) for host in HOSTS]


def losses(at_ns: int) -> list[Step]:
    return [(at_ns, HostDown(host=host, boot="b", cause="will")) for host in HOSTS]


def event(
    data: msgspec.Struct, kind: str = "", *, host: str = "h1", boot: str = "b", past: bool = False, at_ns: int = 0
) -> HostEvent:
    """At eth0 of a host."""
    times: dict[str, Any] = {"earliest_ns": at_ns, "latest_ns": at_ns, "best_ns": at_ns}
    where: dict[str, Any] = {"host": host, "boot": boot, "seq": 1, "type": kind, "port": "eth0"}
    return HostEvent(**where, **times, agent_ns=0, origin="twin", source="link", past=past, data=data)


def carrier(there: bool, at_ns: int, changes: int, host: str = "h1") -> HostEvent:
    return event(CarrierData(carrier=there, carrier_changes=changes), host=host, at_ns=at_ns)


def come_up(*, h0_ns: int, h1_ns: int, seen_ns: int) -> list[Step]:
    """Carrier at both ends, by events that the daemon receives later."""
    return [(seen_ns, carrier(True, h0_ns, 5, "h0")), (seen_ns, carrier(True, h1_ns, 5))]


def cut(at_s: int) -> list[Step]:
    """The fibre from h1.eth0 to the switch is cut: h0.eth0 loses its light, and then its carrier."""
    at_ns = at_s * SECOND
    dark = event(LightData(lanes=[None] * 4), "dark", host="h0", at_ns=at_ns)
    return [(at_ns, dark), (at_ns, carrier(False, at_ns + 1, 6, "h0"))]


def powers(**changed: float | None) -> SwitchPower:
    return SwitchPower(switch="ocs1", power_dbm=by_end({"1A": 1.0, "1B": 1.0, "3A": 1.0, "3B": 1.0, **changed}))


LIT: list[Step] = [*births(0), (0, UP), (0, pairs(*BOTH))]
"""One switch with two links, and carrier at all four ports."""
DARK: list[Step] = [
    *((0, HostUp(host=host, boot="b")) for host in HOSTS),
    *births(0, carrier=False, carrier_changes=4),
    (0, UP),
    (0, pairs()),
]
"""A switch without crossconnects, and two hosts whose ports have no carrier."""
MADE: Step = (10, pairs(*FIRST))
MADE_UP: list[Step] = [*DARK, MADE, *come_up(h0_ns=20, h1_ns=21, seen_ns=22)]
STATES: dict[str, bool | None] = {"light": True, "firmware": False, "carrier": False, "rdma": False}
MODULE = MonitorData(rx_power_dbm=[1.0, 1.2, 1.4, 1.6], tx_power_dbm=[2.0] * 4, bias_ma=[60.0] * 4, temperature_c=35.0)
NO_PARTNER = LinkStateData(
    up=False, why_down="autoneg", detail="no partner detected", downs=None, autoneg=None, speed_mbps=None, fec=None
)
STORIES: dict[str, tuple[list[Step], list[Step]]] = {
    "Links of a switch that is down stay and are unknown; of one that came back empty there are none": (
        LIT,
        [(0, DOWN), (1, UP), (1, pairs())],
    ),
    "Ports follow the events of the present boot of their agent": (
        LIT,
        [
            (1, event(RdmaData(active=True))),
            (2, event(CarrierData(carrier=False), past=True)),
            (3, event(CarrierData(carrier=False), boot="a", past=True)),
            (4, event(CarrierData(carrier=False))),
        ],
    ),
    "A port whose interface is gone has no carrier": (
        LIT,
        [
            (1, event(InterfaceData(present=False))),
            (2, event(CarrierData(carrier=True))),
            (3, event(InterfaceData(present=True))),
            (4, event(CarrierData(carrier=True))),
        ],
    ),
    "Nothing is known of the RDMA port of an interface that is gone": (
        LIT,
        [
            (1, event(RdmaData(active=False))),
            (2, event(InterfaceData(present=False))),
            (3, event(InterfaceData(present=True))),
            (4, event(CarrierData(carrier=True))),
        ],
    ),
    "Carrier is unknown while the agent is away": (LIT, losses(1)[1:]),
    "A link is up since the later carrier of its ends, and down since the first that fell": (
        DARK,
        [
            MADE,
            *come_up(h0_ns=30, h1_ns=20, seen_ns=99),
            (100, carrier(False, 60, 6)),
            (100, carrier(False, 61, 6, "h0")),
        ],
    ),
    "An event that says the same again is no change, and a flap that the kernel counted is one": (
        MADE_UP,
        [(40, carrier(True, 40, 5)), (50, carrier(True, 50, 7))],
    ),
    "A link whose carriers never fell is up since it was made": (DARK, [*come_up(h0_ns=5, h1_ns=6, seen_ns=7), MADE]),
    "Carrier that was there when the agent connected has no beginning": (LIT, [(20, carrier(False, 20, 1))]),
    "Carrier that an absent agent finds unchanged has its beginning again": (
        MADE_UP,
        [*losses(40), *births(50, carrier=None, carrier_changes=None), *births(60, carrier=True, carrier_changes=5)],
    ),
    "Carrier that may have changed meanwhile has none: it was counted": (
        [*MADE_UP, *losses(40)],
        births(50, carrier=True, carrier_changes=7),
    ),
    "or is not counted": ([*MADE_UP, *losses(40)], births(50, carrier=True, carrier_changes=None)),
    "or is of another boot": ([*MADE_UP, *losses(40)], births(50, boot="c", carrier=True, carrier_changes=5)),
    "An interface that is gone takes its link down at that time": (
        MADE_UP,
        [(30, event(InterfaceData(present=False), at_ns=30)), (40, event(InterfaceData(present=True), at_ns=40))],
    ),
    "A link is unknown since the first switch on its way went down": (
        MADE_UP,
        [(60, DOWN), (70, UP), (70, pairs(*FIRST))],
    ),
    "A host has the time when its agent came or went": (
        [],
        [(0, HostUp(host="h0", boot="b")), (5, HostDown(host="h0", boot="b", cause="will"))],
    ),
    "Light, firmware and powers follow the birth and the events of an agent": (
        LIT,
        [
            (0, birth("h1", carrier=False, inventory=Inventory(states={"eth0": STATES}, monitors={"eth0": MODULE}))),
            (1, event(NO_PARTNER)),
            (2, event(FirmwareData(up=True))),
            (3, event(LightData(lanes=[1.0, None, 1.4, 1.6]), "dark")),
            (4, event(CarrierData(carrier=True))),
            (5, event(RdmaData(active=True))),
        ],
    ),
    "Nothing is known of the light of a host whose agent is away": (
        LIT,
        [
            (1, event(CarrierData(carrier=False))),
            (2, event(LightData(lanes=[None] * 4), "dark")),
            (3, HostDown(host="h1", boot="b", cause="will")),
            (4, birth("h1", carrier=False)),
        ],
    ),
    "A link over a switch that is away hangs nowhere": (LIT, [(1, event(CarrierData(carrier=False))), (2, DOWN)]),
    "Power that may be older than the link does not say that its light is lost, until it was asked again": (
        [*DARK, (0, SwitchPower(switch="ocs1", power_dbm=by_end({"1A": 1.0, "3B": None, "3A": 1.0, "1B": None})))],
        [MADE, (10 + MONITORED_NS - 1, ""), (10 + MONITORED_NS, "")],
    ),
    "Power read before the light was lost is no evidence and has its age; what is read later is": (
        MADE_UP,
        [
            (5 * SECOND, "asked"),
            (5 * SECOND, powers()),
            *cut(at_s=7),
            (8 * SECOND, ""),
            (10 * SECOND, "asked"),
            (10 * SECOND, powers(**{"3A": None, "1B": None})),
        ],
    ),
    "Power that was read again and has not changed is evidence": (
        [*MADE_UP, (22, powers())],
        [*cut(at_s=7), (8 * SECOND, "asked"), (9 * SECOND, "")],
    ),
    "A link has the time when the last of its crossconnects was made": (
        DARK,
        [(0, pairs("1A-3B")), (7 * SECOND, pairs(*FIRST)), (9 * SECOND, pairs(*BOTH))],
    ),
}


def test_each_story_changes_the_links_as_the_golden_file_says() -> None:
    """To take over what is said now: delete the file and run this twice."""
    text = ""
    for title, (before, steps) in STORIES.items():
        rack = Rack()
        for at_ns, told in before:
            rack.take(at_ns, told)
        shown = rack.shown()
        text += f"{title}\n" + "".join(f"    {name}: {words}\n" for name, words in shown.items())
        for at_ns, told in steps:
            rack.take(at_ns, told)
            now = rack.shown()
            kind = told.document_kind if isinstance(told, Fact) else told or "nothing new"
            text += f"  {at_ns}: {kind}\n"
            for name in sorted(shown.keys() | now.keys()):
                if now.get(name) != shown.get(name):
                    text += f"    {name}: {now.get(name, 'gone')}\n"
            shown = now
        text += "\n"
    check_golden(STORIES_SAID, text)


def many(ports: int, *, without: int = 0) -> Testbed:
    """Hosts with two ports each, half the rack apart, on one switch; the last ones without their fibres."""
    switch, half = f"{{driver: polatis-tl1, model: polatis-6000, size: {ports}x{ports}, twin: {{}}}}", ports // 2
    nics = "{eth0: {module: 100g-lr4}, eth1: {module: 100g-lr4}}"
    text = f"testbed: many\nswitches:\n  ocs1: {switch}\nhosts:\n"
    text += "".join(f"  h{host}: {{nics: {nics}}}\n" for host in range(half)) + "fibres:\n"
    text += "".join(f"  - h{at % half}.eth{at // half} <-> ocs1.{at + 1}\n" for at in range(ports - without))
    return load_text(text, file="many.yaml").require()


class Links(links.Links):
    """How much it keeps."""

    @property
    def kept(self) -> int:
        return len(self._looked) + sum(map(len, self._of.values()))


def joined(turn: int, ports: int) -> SwitchRead:
    """Each port with another one, which is a further one at each turn."""
    half = ports // 2
    ends = [(1 + number, 1 + half + (number + turn) % half) for number in range(half)]
    return pairs(*(pair for one, other in ends for pair in (f"{one}A-{other}B", f"{other}A-{one}B")))


def test_links_that_come_and_go_leave_nothing() -> None:
    testbed, ports = many(24), NicPorts()
    switches = ReportedSwitches(testbed.switches)
    board = Links(Fabric(testbed), switches, ports, lambda: WALL_NS)
    kept = set[int]()
    for turn in range(40):
        for sink in (switches, ports, board):
            sink(Document(at_ns=0, wall_ns=WALL_NS, fact=joined(turn, 24)))
        assert len([*board.each()]) == 12
        kept.add(board.kept)
    assert max(kept) == 12 * (1 + 2 + 2 + 1), "each with its ends, its hosts and its switch"


def test_a_reload_between_two_links_ends_the_walk() -> None:
    """They are looked at in turns of the event loop."""
    testbed, ports = many(8), NicPorts()
    switches = ReportedSwitches(testbed.switches)
    board = Links(Fabric(testbed), switches, ports, lambda: WALL_NS)
    for sink in (switches, ports, board):
        sink(Document(at_ns=0, wall_ns=WALL_NS, fact=joined(0, 8)))
    walk = board.each()
    next(walk)
    fewer = Fabric(many(8, without=4))
    switches.use_testbed(fewer)
    board.use_testbed(fewer)
    assert [*walk] == []
    assert [*board.each()] == []


def test_orphans_that_are_looked_for_in_parts_are_those_of_now() -> None:
    """A switch may change while others are looked at."""
    switch = "{driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {}}"
    nics = "{eth0: {module: 100g-lr4}}"
    text = f"testbed: two\nswitches: {{ocs1: {switch}, ocs2: {switch}}}\nhosts: {{h0: {{nics: {nics}}}}}\n"
    testbed = load_text(f"{text}fibres: [h0.eth0.tx -> ocs1.1A, ocs2.1B -> h0.eth0.rx]\n", file="two.yaml").require()
    switches = ReportedSwitches(testbed.switches)
    board = Links(Fabric(testbed), switches, NicPorts(), lambda: WALL_NS)

    def read(switch: str, *texts: str) -> None:
        fact = msgspec.structs.replace(pairs(*texts), switch=switch)
        switches(Document(at_ns=0, wall_ns=WALL_NS, fact=fact))

    read("ocs1", "3A-4B")
    read("ocs2", "5A-6B")
    walk = board.look_for_orphans(switches_at_once=1)
    next(walk)
    read("ocs2", "7A-8B")
    assert board.orphans() == ["ocs1:3A-4B", "ocs2:7A-8B"]
    assert [*walk] == [None]
    assert board.orphans() == ["ocs1:3A-4B", "ocs2:7A-8B"]


def test_a_rack_without_fibres_has_no_orphans() -> None:
    """Nothing that leads to a switch was taken out of its file."""
    testbed = load_text(
        "testbed: bare\nswitches: {ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {}}}\n",
        file="bare.yaml",
    ).require()
    switches = ReportedSwitches(testbed.switches)
    switches(Document(at_ns=0, wall_ns=WALL_NS, fact=pairs("1A-2B")))
    assert Links(Fabric(testbed), switches, NicPorts(), lambda: WALL_NS).orphans() == []
