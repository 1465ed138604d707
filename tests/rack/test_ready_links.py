"""Links: ready, not ready or unknown, as reconfigurations and hosts tell of them."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
import pytest

from hwd.model.host import HostBirth, HostDown, HostEvent
from hwd.model.instant import Instant, InstantName
from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.nic_port import NicPortId
from hwd.model.reconfiguration import ReconfigurationEnded, ReconfigurationStarted, StartedLink, StartedMove
from hwd.model.timeline import LinkTimeline, Timeline
from hwd.rack.nic_ports import NicPorts
from hwd.rack.ready_links import ReadyLinks
from hwd_agents.wire.events import CarrierData, ReadyData
from hwd_drivers.core.documents import Document, Fact

from ..texts import host_port, links_of, switch_pairs_of

LINK, OTHER = links_of("h0.eth0<->h1.eth0", "h0.eth0<->h2.eth0")
ENDS = LINK.ends
THIRD = OTHER.b
PAIRS = THERE, BACK = switch_pairs_of("ocs1:1A-2B", "ocs1:2A-1B")
OTHER_PAIRS = switch_pairs_of("ocs1:1A-3B", "ocs1:3A-1B")
PORT: Final = host_port(interface="enp1s0", carrier=False)
Started = Iterable[tuple[Link, bool, Iterable[SwitchCrossconnect]]]
SEEN, NEVER = Instant.never_left(InstantName.READY, ""), Instant.unknown(InstantName.READY, "nobody waited")


class Rack:
    """Two hosts whose ports have no carrier, and one link under way."""

    def __init__(self) -> None:
        self.ports = NicPorts()
        self.links = ReadyLinks(self.ports)
        for end in ENDS:
            self.born(end)
        self.begin("r1", [(LINK, False, PAIRS)], [])

    def tell(self, fact: Fact) -> None:
        for sink in (self.ports, self.links):
            sink(Document(at_ns=0, wall_ns=0, fact=fact))

    def born(self, end: NicPortId) -> None:
        self.tell(HostBirth(host=end.host, boot="b", version="", ports={end.port: PORT}))

    def begin(self, id: str, links: Started, removed: Iterable[SwitchCrossconnect]) -> None:
        """`links`: each, whether it is kept, and its crossconnects."""
        started = [StartedLink(link=link, kept=kept, crossconnects=[*pairs]) for link, kept, pairs in links]
        moves = [StartedMove(switch=one.switch, remove=[one.crossconnect], add=[]) for one in removed]
        self.tell(ReconfigurationStarted(reconfiguration=id, run=None, hash="", what="", links=started, moves=moves))

    def end(self, id: str, outcome: str) -> None:
        self.tell(ReconfigurationEnded(reconfiguration=id, run=None, outcome=outcome, why="", seconds=1.0))

    def time(self, link: Link, *, ready: bool) -> None:
        timed = LinkTimeline(link=link, kept=False, instants=(SEEN if ready else NEVER,), stages=(), dwell_s=None)
        self.tell(Timeline(reconfiguration="r", run=None, what="", commands=[], ends=[], links=[timed], breaches=[]))

    def event(self, end: NicPortId, data: msgspec.Struct) -> None:
        times: dict[str, Any] = dict.fromkeys(("earliest_ns", "latest_ns", "best_ns", "agent_ns"), 0)
        where: dict[str, Any] = {"host": end.host, "boot": "b", "seq": 1, "type": "", "port": end.port}
        self.tell(HostEvent(**where, **times, origin="twin", source="link", data=data))

    def carrier(self, end: NicPortId, there: bool) -> None:
        self.event(end, CarrierData(carrier=there))

    def come_up(self, *ends: NicPortId) -> None:
        for end in ends:
            self.carrier(end, True)
            self.event(end, ReadyData(reconfiguration="r1", peer="h9.eth0"))

    def ready(self, link: Link = LINK) -> bool | None:
        return self.links.is_ready(link)


@pytest.fixture
def rack() -> Rack:
    return Rack()


def test_link_is_ready_when_both_ends_had_a_transfer_falls_with_its_carrier_and_is_not_ready_by_its_coming_back(
    rack: Rack,
) -> None:
    assert rack.ready() is False
    rack.come_up(ENDS[0])
    assert rack.ready() is False
    rack.come_up(ENDS[1])
    assert rack.ready() is True
    rack.carrier(ENDS[0], False)
    rack.time(LINK, ready=True)
    assert rack.ready() is False, "it fell again before its timeline"
    rack.come_up(*ENDS)
    rack.end("r1", "confirmed")
    rack.carrier(ENDS[1], False)
    assert rack.ready() is False
    rack.carrier(ENDS[1], True)
    assert rack.ready() is None


def test_link_that_nobody_waited_for_is_dark_until_its_carrier_and_then_unknown(rack: Rack) -> None:
    rack.time(LINK, ready=False)
    rack.end("r1", "confirmed")
    assert rack.ready() is False
    for end in ENDS:
        rack.carrier(end, True)
    assert rack.ready() is None


def test_link_that_was_taken_away_is_not_missed_and_the_way_back_brings_it_again(rack: Rack) -> None:
    rack.come_up(*ENDS)
    rack.end("r1", "confirmed")
    rack.begin("r2", [(OTHER, False, OTHER_PAIRS)], PAIRS)
    rack.born(THIRD)
    rack.come_up(THIRD)
    assert rack.ready(OTHER) is None, "a transfer of an earlier link does not count for a new one"
    for end in ENDS:
        rack.carrier(end, False)
    rack.time(OTHER, ready=False)
    assert (rack.ready(), rack.ready(OTHER)) == (None, False)
    rack.end("r2", "rolled-back")
    assert (rack.ready(), rack.ready(OTHER)) == (False, None)
    rack.begin("r3", [], [THERE])
    rack.end("r3", "confirmed")
    assert rack.ready() is None


def test_kept_link_goes_on_being_ready_and_one_from_before_the_daemon_is_known_by_its_timeline(rack: Rack) -> None:
    rack.come_up(*ENDS)
    rack.end("r1", "confirmed")
    rack.begin("r2", [(LINK, True, PAIRS)], [])
    assert rack.ready() is True
    rack.end("r2", "rolled-back")
    assert rack.ready() is True
    rack.begin("r3", [(OTHER, True, OTHER_PAIRS)], [])
    assert rack.ready(OTHER) is None
    rack.time(OTHER, ready=True)
    assert rack.ready(OTHER) is True


def test_nothing_is_known_after_a_failed_way_back_and_of_links_whose_agent_is_away(rack: Rack) -> None:
    rack.come_up(*ENDS)
    for away in ("h", "h0"):
        rack.tell(HostDown(host=away, boot="b", cause="will"))
        assert rack.ready() == (None if away == "h0" else True)
    rack.begin("r2", [(OTHER, False, ())], [])
    rack.end("r2", "failed")
    assert rack.ready(OTHER) is None


def test_a_link_of_which_one_end_is_dark_is_unknown_once_the_agent_of_the_other_is_away(rack: Rack) -> None:
    rack.carrier(ENDS[0], True)
    assert rack.ready() is False
    rack.tell(HostDown(host="h0", boot="b", cause="will"))
    assert rack.ready() is None
