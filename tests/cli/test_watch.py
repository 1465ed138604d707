"""The lines of `hwd watch`."""

import json

import pytest

from hwd.cli.commands.status import show
from hwd.cli.output import Output
from hwd.model.documents.switches import SwitchOverrun
from hwd.model.kinds import UnreadFact
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.values import PortOverride
from hwd_drivers.devices.facts import SwitchOverride, SwitchRestarted

OVERRUN = SwitchOverrun(switch="ocs1", reconfiguration="r1", lost=["1A-2B", "3A-4B"], window_s=0.0123)
RESTARTED = SwitchRestarted(switch="ocs1", sign="at-rest", lost=["1A-2B"], uptime_s=None, unheard_s=7.5)
OVERRIDE = SwitchOverride(switch="ocs1", ends=["1A", "2B"], to=PortOverride.FORCE_BLOCKED, by="ada")
UNREAD = UnreadFact(kind="switch.restarted", fields={"switch": "ocs1", "lost": 3, "at_ns": 4}, why="lost")


def document(fact: Fact) -> Document:
    return Document(at_ns=1, wall_ns=1_700_000_000_000_000_000, fact=fact)


@pytest.mark.parametrize(
    ("fact", "line"),
    [
        (OVERRUN, "switch.overrun switch=ocs1 reconfiguration=r1 window_s=0.0123 lost=1A-2B,3A-4B"),
        (RESTARTED, "switch.restarted switch=ocs1 sign=at-rest unheard_s=7.5 lost=1A-2B"),
        (OVERRIDE, "switch.override switch=ocs1 to=force-blocked by=ada ends=1A,2B"),
        (UNREAD, "switch.restarted switch=ocs1 lost=3"),
    ],
    ids=["overrun", "restarted", "override", "another version"],
)
def test_line_of_an_event_has_its_plain_values_and_what_was_lost(
    fact: Fact, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show(Output(json=False), document(fact), "b.1")
    assert capsys.readouterr().out.partition(" ")[2] == f"{line}\n"


@pytest.mark.parametrize("fact", [OVERRUN, UNREAD], ids=["overrun", "another version"])
def test_json_of_an_event_is_the_whole_document(fact: Fact, capsys: pytest.CaptureFixture[str]) -> None:
    show(Output(json=True), document(fact), "b.1")
    assert json.loads(capsys.readouterr().out) == {"id": "b.1", **document(fact).to_data()}
