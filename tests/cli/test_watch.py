"""The lines of `hwd watch`."""

import json
import subprocess

import pytest

from hwd.cli.commands.status import missed_line, show
from hwd.cli.output import Output
from hwd.model.documents.switches import SwitchOverrun
from hwd.model.kinds import UnreadFact
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.values import PortOverride
from hwd_drivers.devices.facts import SwitchOverride, SwitchRestarted

from .conftest import HWD

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


def watching(*words: str) -> "subprocess.Popen[str]":
    command = [*HWD, "watch", *words, "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.timeout(60)
def test_watch_since_begins_with_what_has_happened_and_ends_after_so_many(hwd, daemon: int) -> None:  # type: ignore[no-untyped-def]
    before_ns = SystemClock().wall_ns()
    assert hwd("apply", "ocs1:1A-2B", "--no-ready").status == 0
    begin_ns = SystemClock().wall_ns()
    said = hwd("watch", "--kind", "reconfiguration.state", "--since", "1m", "--count", "1", "--json")
    assert said.status == 0
    assert json.loads(said.out)["wall_ns"] >= before_ns
    with watching("--kind", "reconfiguration.", "--since", "0s", "--count", "1") as process:
        while process.poll() is None:
            assert hwd("apply", "ocs1:none", "--no-ready").status == 0
            assert hwd("apply", "ocs1:1A-2B", "--no-ready").status == 0
        assert process.stdout is not None
        assert json.loads(process.stdout.read())["wall_ns"] > begin_ns, "what happened before is left out"
    now_ns = SystemClock().wall_ns()
    lines = hwd("watch", "--since", "1m", "--count", "3", "--json").out.splitlines()
    assert len(lines) == 3, "those of the past count"
    assert all(json.loads(line)["wall_ns"] < now_ns for line in lines)
    with watching("--kind", "reconfiguration.ended", "--since", "1m", "--count", "500") as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["kind"] == "reconfiguration.ended"
        assert process.poll() is None, "there are fewer yet, and it waits for the rest"
        process.kill()


def test_events_that_the_daemon_no_longer_has_are_not_called_missed_before_the_first_one() -> None:
    assert missed_line(3, since=None) == "3 events missed"
    line = "the daemon no longer has its 3 oldest events; any of them since 5m are not shown"
    assert missed_line(3, since="5m") == line
