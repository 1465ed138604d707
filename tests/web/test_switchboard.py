"""What switches last said, as the status screen shows it."""

import json
from dataclasses import replace
from pathlib import Path

import msgspec

from hwd.daemon.installed_drivers import load
from hwd.model.answers import OverrunReport, RestartReport, SwitchStatus
from hwd.model.documents.hosts import HostUp
from hwd.model.documents.switches import SwitchOverrun, SwitchUnknown
from hwd.web.switchboard import OVERRUNS_KEPT, Switchboard
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.values import CrossconnectState, PortOverride
from hwd_drivers.devices.facts import (
    CrossconnectReport,
    SwitchCommand,
    SwitchDown,
    SwitchOverride,
    SwitchPower,
    SwitchRead,
    SwitchRestarted,
    SwitchUp,
)

EXAMPLE = Path(__file__).parents[2] / "examples" / "two-hosts.yaml"
UP = SwitchUp(switch="ocs1", vendor="Polatis", model="6000", serial="7", firmware="6.6", down_s=0.0)
TUNED = CrossconnectState.TUNED
PAIR = CrossconnectReport(id="1A-2B", state=TUNED)
READ = SwitchRead(switch="ocs1", crossconnects=[PAIR], added=["1A-2B"], removed=[], ours=True)


def board(**owners: str) -> Switchboard:
    """Of `ocs2` and `ocs1`, in this order; `owners` are the hosts that drive them."""
    (like,) = load(EXAMPLE).require().switches.values()
    return Switchboard({name: replace(like, name=name, owner=owners.get(name)) for name in ("ocs2", "ocs1")})


def tell(switchboard: Switchboard, fact: Fact, wall_ns: int = 0) -> SwitchStatus:
    """The report of ocs1 after it."""
    switchboard(Document(at_ns=0, wall_ns=wall_ns, fact=fact))
    return switchboard.reports()[1]


def test_at_first_every_switch_is_down_in_the_order_of_the_file() -> None:
    reports = board().reports()
    assert [one.switch for one in reports] == ["ocs2", "ocs1"]
    assert {(one.up, one.cause) for one in reports} == {(False, "no session yet")}


def test_a_switch_that_a_host_drives_is_neither_up_nor_down() -> None:
    report = board(ocs1="h0").reports()[1]
    assert (report.up, report.owner, report.cause) == (None, "h0", "nothing was heard of it from host h0")


def test_a_switch_of_a_host_that_is_away_carries_nobody_knows_what() -> None:
    switches = board(ocs1="h0")
    tell(switches, UP)
    report = tell(switches, READ)
    assert (report.up, report.readings) == (True, [PAIR])
    report = tell(switches, SwitchUnknown(switch="ocs1", cause="host h0 is away: it stopped in order", host="h0"))
    assert (report.up, report.readings) == (None, [])
    assert report.cause == "host h0 is away: it stopped in order"


def test_one_that_went_down_keeps_what_it_said_and_its_cause() -> None:
    switches = board()
    tell(switches, UP)
    report = tell(switches, READ)
    assert (report.up, report.cause, report.serial, report.readings) == (True, "", "7", [PAIR])
    report = tell(switches, SwitchDown(switch="ocs1", cause="reset by peer"))
    assert (report.up, report.cause, report.readings) == (False, "reset by peer", [PAIR])
    report = tell(switches, msgspec.structs.replace(UP, firmware="6.7"))
    assert (report.up, report.cause, report.firmware) == (True, "", "6.7")
    assert switches.reports()[0].up is False


def test_powers_are_told_in_parts_and_kept_together() -> None:
    switches = board()
    tell(switches, SwitchPower(switch="ocs1", power_dbm={"1A": -2.0, "2A": None}))
    report = tell(switches, SwitchPower(switch="ocs1", power_dbm={"2A": -3.5}))
    assert report.power_dbm == {"1A": -2.0, "2A": -3.5}


def test_ends_that_are_held_dark_are_shown_in_order_until_a_new_session_tells_its_own() -> None:
    switches = board()

    def override(to: PortOverride, *ends: str) -> list[str]:
        return tell(switches, SwitchOverride(switch="ocs1", ends=[*ends], to=to, by="ada")).blocked

    override(PortOverride.FORCE_BLOCKED, "10A", "2B")
    assert override(PortOverride.FORCE_BLOCKED, "9A", "10A") == ["2B", "9A", "10A"]
    assert override(PortOverride.NORMAL, "9A", "1A") == ["2B", "10A"]
    assert tell(switches, UP).blocked == []


def test_the_last_overruns_are_kept() -> None:
    switches = board()
    for number in range(OVERRUNS_KEPT + 2):
        tell(switches, SwitchOverrun(switch="ocs1", reconfiguration=f"r{number}", lost=["1A-7B"], window_s=0.004))
    overruns = switches.reports()[1].overruns
    assert len(overruns) == OVERRUNS_KEPT
    assert overruns[-1] == OverrunReport(
        wall_ns=0, reconfiguration=f"r{OVERRUNS_KEPT + 1}", lost=["1A-7B"], window_s=0.004
    )


def test_the_last_restart_is_kept_when_the_switch_is_up_again() -> None:
    switches = board()
    lost = ["1A-2B", "3A-4B", "5A-6B"]
    restarted = SwitchRestarted(switch="ocs1", sign="at-rest", lost=lost, uptime_s=None, unheard_s=4.5)
    assert tell(switches, UP).restart is None
    assert tell(switches, restarted).restart == RestartReport(
        wall_ns=0, sign="at-rest", lost=lost, uptime_s=None, unheard_s=4.5, missing=lost
    )

    def missing(*there: str, added: tuple[str, ...]) -> list[str]:
        found = [CrossconnectReport(id=one, state=TUNED) for one in there]
        read = SwitchRead(switch="ocs1", crossconnects=found, added=[*added], removed=[], ours=True)
        left = tell(switches, read).restart
        assert left is not None
        assert left.lost == lost
        return left.missing

    assert missing(added=()) == ["1A-2B", "3A-4B", "5A-6B"]
    assert missing("1A-2B", added=("1A-2B",)) == ["3A-4B", "5A-6B"]
    assert missing("1A-2B", "3A-7B", added=("3A-7B",)) == ["5A-6B"], "somebody has put another in its place"
    assert missing(added=()) == ["5A-6B"], "and what is taken away later is not missed"


def test_documents_of_others_change_nothing() -> None:
    switches = board()
    before = switches.reports()
    tell(switches, msgspec.structs.replace(UP, switch="ocs9"))
    tell(switches, HostUp(host="ocs1", boot="b"))
    tell(switches, SwitchCommand(switch="ocs1", verb="connect", outcome="done", seconds=0.2, code="", text=""))
    assert switches.reports() == before


def test_report_has_all_its_fields_in_json() -> None:
    switches = board()
    tell(switches, UP)
    assert json.loads(msgspec.json.encode(tell(switches, READ))) == {
        "switch": "ocs1",
        "owner": None,
        "up": True,
        "cause": "",
        "vendor": "Polatis",
        "model": "6000",
        "serial": "7",
        "firmware": "6.6",
        "crossconnects": [{"id": "1A-2B", "state": "tuned"}],
        "power_dbm": {},
        "blocked": [],
        "overruns": [],
        "restart": None,
        "lease": None,
        "since_wall_ns": 0,
        "last_change": None,
    }


def test_state_of_a_switch_has_the_time_when_it_began() -> None:
    switches = board(ocs1="h0")
    assert switches.reports()[1].since_wall_ns is None, "nobody saw it begin"
    unknown = SwitchUnknown(switch="ocs1", cause="host h0 is away", host="h0")
    times = []
    for wall_ns, fact in enumerate((unknown, UP, UP, READ, SwitchDown(switch="ocs1", cause="no line"), unknown, UP), 1):
        times.append(tell(switches, fact, wall_ns).since_wall_ns)
    assert times == [None, 2, 2, 2, 5, 6, 7]


def test_switch_without_a_session_from_the_start_has_no_time() -> None:
    switches = board()
    assert tell(switches, SwitchDown(switch="ocs1", cause="refused"), 1).since_wall_ns is None
    assert tell(switches, UP, 2).since_wall_ns == 2


def read(*ids: str, added: tuple[str, ...] = ()) -> SwitchRead:
    found = [CrossconnectReport(id=one, state=TUNED) for one in ids]
    return SwitchRead(switch="ocs1", crossconnects=found, added=[*added], removed=[], ours=True)


def test_crossconnect_has_the_time_when_it_was_made_where_that_was_seen() -> None:
    switches = board()
    tell(switches, UP, 1)
    tell(switches, read("1A-2B"), 2)
    tell(switches, read("1A-2B", "3A-4B", added=("3A-4B",)), 3)
    assert switches.made_wall_ns("ocs1", "1A-2B") is None, "it was there before"
    assert switches.made_wall_ns("ocs1", "3A-4B") == 3
    assert switches.made_wall_ns("ocs2", "3A-4B") is None
    tell(switches, SwitchDown(switch="ocs1", cause="reset"), 4)
    tell(switches, UP, 5)
    tell(switches, read("3A-4B", "5A-6B", added=("5A-6B",)), 6)
    assert switches.made_wall_ns("ocs1", "3A-4B") == 3, "it stayed"
    assert switches.made_wall_ns("ocs1", "5A-6B") is None, "it came while nobody looked"
    tell(switches, read("5A-6B"), 7)
    tell(switches, read("3A-4B", "5A-6B", added=("3A-4B",)), 8)
    assert switches.made_wall_ns("ocs1", "3A-4B") == 8
