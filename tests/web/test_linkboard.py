"""The status screen's view of links: the last reports of switches, and what is unknown while one is down."""

from pathlib import Path

import pytest

from hwd.daemon.installed_drivers import load
from hwd.fabric.fabric import Fabric
from hwd.web.linkboard import Linkboard
from hwd.web.switchboard import Switchboard
from hwd_drivers.core.documents import Document, Json

EXAMPLE = Path(__file__).parents[2] / "examples" / "two-hosts.yaml"
TESTBED = load(EXAMPLE).require()
LINKS = ("h0.eth0<->h1.eth0", "h0.eth1<->h1.eth1")
UP: dict[str, Json] = {"vendor": "Polatis", "model": "6000", "serial": "7", "firmware": "1", "down_s": 0.0}


class Boards:
    """Both boards of one testbed, told the same."""

    def __init__(self) -> None:
        self.switches = Switchboard(TESTBED.switches)
        self.links = Linkboard(Fabric(TESTBED), self.switches.to_data)

    def tell(self, kind: str, **data: Json) -> None:
        document = Document(kind=kind, at_ns=0, wall_ns=0, data=data)
        self.switches(document)
        self.links(document)

    def read(self, *pairs: str) -> None:
        self.tell("switch.read", switch="ocs1", crossconnects=[{"id": pair, "state": "tuned"} for pair in pairs])


@pytest.fixture
def boards() -> Boards:
    """One switch with two links, and carrier at all four ports."""
    boards = Boards()
    for host in ("h0", "h1"):
        boards.tell("host.birth", host=host, boot="b", ports={"eth0": {"carrier": True}, "eth1": {"carrier": True}})
    boards.tell("switch.up", switch="ocs1", **UP)
    boards.read("1A-3B", "3A-1B", "2A-4B", "4A-2B")
    return boards


def test_links_of_a_switch_that_is_up_have_the_carrier_of_their_ends(boards: Boards) -> None:
    assert boards.links.links() == [{"link": link, "carrier": True, "away": []} for link in LINKS]


def test_links_of_a_switch_that_is_down_stay_and_are_unknown(boards: Boards) -> None:
    boards.tell("switch.down", switch="ocs1", cause="reset by peer")
    assert boards.links.links() == [{"link": link, "carrier": None, "away": ["ocs1"]} for link in LINKS]


def test_a_switch_that_came_back_empty_has_no_links(boards: Boards) -> None:
    boards.tell("switch.down", switch="ocs1", cause="reset by peer")
    boards.tell("switch.up", switch="ocs1", **UP)
    boards.read()
    assert boards.links.links() == []
