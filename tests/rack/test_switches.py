"""What switches last said, as the status screen shows it."""

import json
import logging
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from hwd.daemon.installed_drivers import load
from hwd.model.host import HostUp
from hwd.model.switch import SwitchOverrun, SwitchUnknown
from hwd.rack.switches import OVERRUNS_KEPT, ReportedSwitches
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.structs import to_plain
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState, PortOverride
from hwd_drivers.devices.facts import (
    SwitchCommand,
    SwitchDown,
    SwitchOverride,
    SwitchPower,
    SwitchRead,
    SwitchRestarted,
    SwitchUp,
)

from ..answers import check_golden
from ..texts import by_end, ends_of, pairs_of

SAID = Path(__file__).with_name("switch_stories.txt")
EXAMPLE = Path(__file__).parents[2] / "examples" / "two-hosts.yaml"
UP = SwitchUp(switch="ocs1", vendor="Polatis", model="6000", serial="7", firmware="6.6", down_s=0.0)
TUNED = CrossconnectState.TUNED
PAIR = CrossconnectReading(crossconnect=Crossconnect.parse("1A-2B"), state=TUNED)
READ = SwitchRead(switch="ocs1", crossconnects=[PAIR], added=pairs_of("1A-2B"), removed=[], ours=True)


def read(*ids: str, added: tuple[str, ...] = ()) -> SwitchRead:
    found = [CrossconnectReading(crossconnect=Crossconnect.parse(one), state=TUNED) for one in ids]
    return SwitchRead(switch="ocs1", crossconnects=found, added=pairs_of(*added), removed=[], ours=True)


def override(to: PortOverride, *ends: str) -> SwitchOverride:
    return SwitchOverride(switch="ocs1", ends=ends_of(*ends), to=to, by="ada")


def board(owner: str | None = None) -> ReportedSwitches:
    """Of `ocs2` and `ocs1`, in this order; `owner` is the host that drives the second."""
    (like,) = load(EXAMPLE).require().switches.values()
    return ReportedSwitches(
        {name: replace(like, name=name, owner=one) for name, one in (("ocs2", None), ("ocs1", owner))}
    )


def shown(switches: ReportedSwitches) -> dict[str, str]:
    """Each field of the report of ocs1, and when its crossconnects were made."""
    other, report = to_plain(switches.reports())
    fields = {name: json.dumps(value) for name, value in report.items()}
    made = {id: switches.made_wall_ns("ocs1", id) for id in ("1A-2B", "3A-4B", "5A-6B")}
    return {"ocs2": json.dumps([other["up"], other["cause"]]), **fields, "made": json.dumps(made)}


AWAY = SwitchUnknown(switch="ocs1", cause="host h0 is away: it stopped in order", host="h0")
DOWN = SwitchDown(switch="ocs1", cause="reset by peer")
RESTARTED = SwitchRestarted(
    switch="ocs1", sign="at-rest", lost=pairs_of("1A-2B", "3A-4B", "5A-6B"), uptime_s=None, unheard_s=4.5
)
STORIES: dict[str, list[Fact]] = {
    "One that went down keeps what it said and its cause, and its state has the time when it began": [
        UP,
        READ,
        DOWN,
        msgspec.structs.replace(UP, firmware="6.7"),
    ],
    "One without a session from the start has no time": [DOWN, UP],
    "Powers are told in parts and kept together": [
        SwitchPower(switch="ocs1", power_dbm=by_end({"1A": -2.0, "2A": None})),
        SwitchPower(switch="ocs1", power_dbm=by_end({"2A": -3.5})),
    ],
    "Ends that are held dark are shown in order until a new session tells its own": [
        override(PortOverride.FORCE_BLOCKED, "10A", "2B"),
        override(PortOverride.FORCE_BLOCKED, "9A", "10A"),
        override(PortOverride.NORMAL, "9A", "1A"),
        UP,
    ],
    "The last overruns are kept": [
        SwitchOverrun(switch="ocs1", reconfiguration=f"r{number}", lost=pairs_of("1A-7B"), window_s=0.004)
        for number in range(OVERRUNS_KEPT + 2)
    ],
    "The last restart is kept when the switch is up again; what somebody has replaced or takes away is not missed": [
        UP,
        RESTARTED,
        read(),
        read("1A-2B", added=("1A-2B",)),
        read("1A-2B", "3A-7B", added=("3A-7B",)),
        read(),
    ],
    "Documents of others change nothing": [
        msgspec.structs.replace(UP, switch="ocs9"),
        HostUp(host="ocs1", boot="b"),
        SwitchCommand(switch="ocs1", verb="connect", outcome="done", seconds=0.2, code="", text=""),
    ],
    "A crossconnect has the time when it was made where that was seen, and not while nobody looked": [
        UP,
        read("1A-2B"),
        read("1A-2B", "3A-4B", added=("3A-4B",)),
        DOWN,
        UP,
        read("3A-4B", "5A-6B", added=("5A-6B",)),
        read("5A-6B"),
        read("3A-4B", "5A-6B", added=("3A-4B",)),
    ],
}
OF_A_HOST: dict[str, list[Fact]] = {
    "A switch that a host drives is neither up nor down; while that is away it carries nobody knows what": [
        AWAY,
        UP,
        UP,
        READ,
        DOWN,
        AWAY,
        UP,
    ]
}


def test_each_story_changes_the_report_as_the_golden_file_says() -> None:
    """To take over what is said now: delete the file and run this twice."""
    text = ""
    for stories, owner in ((STORIES, None), (OF_A_HOST, "h0")):
        for title, facts in stories.items():
            switches = board(owner)
            before: dict[str, str] = {} if title in (next(iter(STORIES)), next(iter(OF_A_HOST))) else shown(switches)
            text += f"{title}\n"
            for wall_ns, fact in enumerate([None, *facts]):
                if fact is not None:
                    switches(Document(at_ns=0, wall_ns=wall_ns, fact=fact))
                    text += f"  {wall_ns}: {fact.document_kind}\n"
                now = shown(switches)
                text += "".join(f"    {name}: {now[name]}\n" for name in now if now[name] != before.get(name))
                before = now
    check_golden(SAID, text)


def test_what_is_told_of_a_switch_that_a_reload_has_taken_out_is_ignored_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "hwd.rack.switches")
    switches = board()
    before = shown(switches)
    for fact in (UP, READ, DOWN):
        switches(Document(at_ns=0, wall_ns=1, fact=structs.replace(fact, switch="gone")))
    assert (switches.ignored, switches.report("gone"), shown(switches)) == ({"gone": 3}, None, before)
    assert caplog.messages == ["gone: what is told of it is ignored, as the testbed has it not: switch.up"]
