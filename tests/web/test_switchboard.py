"""What switches last said, as the status screen shows it."""

from dataclasses import replace
from pathlib import Path

from hwd.daemon.installed_drivers import load
from hwd.web.switchboard import OVERRUNS_KEPT, Switchboard
from hwd_drivers.core.documents import Document, Json

EXAMPLE = Path(__file__).parents[2] / "examples" / "two-hosts.yaml"
UP: dict[str, Json] = {"switch": "ocs1", "vendor": "Polatis", "model": "6000", "serial": "7", "firmware": "6.6"}


def board(**owners: str) -> Switchboard:
    """Of `ocs2` and `ocs1`, in this order; `owners` are the hosts that drive them."""
    (like,) = load(EXAMPLE).require().switches.values()
    return Switchboard({name: replace(like, name=name, owner=owners.get(name)) for name in ("ocs2", "ocs1")})


def tell(switchboard: Switchboard, kind: str, data: dict[str, Json]) -> dict[str, Json]:
    """What is shown of ocs1 after it."""
    switchboard(Document(kind=kind, at_ns=0, wall_ns=0, data=data))
    return switchboard.to_data()[1]


def test_at_first_every_switch_is_down_in_the_order_of_the_file() -> None:
    shown = board().to_data()
    assert [one["switch"] for one in shown] == ["ocs2", "ocs1"]
    assert {(one["up"], one["cause"]) for one in shown} == {(False, "no session yet")}


def test_a_switch_that_a_host_drives_is_neither_up_nor_down() -> None:
    shown = board(ocs1="h0").to_data()[1]
    assert (shown["up"], shown["owner"], shown["cause"]) == (None, "h0", "nothing was heard of it from host h0")


def test_a_switch_of_a_host_that_is_away_carries_nobody_knows_what() -> None:
    switches = board(ocs1="h0")
    tell(switches, "switch.up", UP)
    crossconnects: list[Json] = [{"id": "1A-2B", "state": "tuned"}]
    shown = tell(switches, "switch.read", {"switch": "ocs1", "crossconnects": crossconnects})
    assert (shown["up"], shown["crossconnects"]) == (True, crossconnects)
    shown = tell(switches, "switch.unknown", {"switch": "ocs1", "cause": "host h0 is away: it stopped in order"})
    assert (shown["up"], shown["crossconnects"]) == (None, [])
    assert shown["cause"] == "host h0 is away: it stopped in order"


def test_one_that_went_down_keeps_what_it_said_and_its_cause() -> None:
    switches = board()
    tell(switches, "switch.up", UP)
    crossconnects: list[Json] = [{"id": "1A-2B", "state": "tuned"}]
    shown = tell(switches, "switch.read", {"switch": "ocs1", "crossconnects": crossconnects})
    assert (shown["up"], shown["cause"], shown["serial"], shown["crossconnects"]) == (True, "", "7", crossconnects)
    shown = tell(switches, "switch.down", {"switch": "ocs1", "cause": "reset by peer"})
    assert (shown["up"], shown["cause"], shown["crossconnects"]) == (False, "reset by peer", crossconnects)
    shown = tell(switches, "switch.up", {**UP, "firmware": "6.7"})
    assert (shown["up"], shown["cause"], shown["firmware"]) == (True, "", "6.7")
    assert switches.to_data()[0]["up"] is False


def test_powers_are_told_in_parts_and_kept_together() -> None:
    switches = board()
    tell(switches, "switch.power", {"switch": "ocs1", "power_dbm": {"1A": -2.0, "2A": None}})
    shown = tell(switches, "switch.power", {"switch": "ocs1", "power_dbm": {"2A": -3.5}})
    assert shown["power_dbm"] == {"1A": -2.0, "2A": -3.5}


def test_ends_that_are_held_dark_are_shown_in_order_until_a_new_session_tells_its_own() -> None:
    switches = board()
    dark: dict[str, Json] = {"switch": "ocs1", "to": "force-blocked", "by": "ada"}
    tell(switches, "switch.override", {**dark, "ends": ["10A", "2B"]})
    shown = tell(switches, "switch.override", {**dark, "ends": ["9A", "10A"]})
    assert shown["blocked"] == ["2B", "9A", "10A"]
    shown = tell(switches, "switch.override", {**dark, "to": "normal", "ends": ["9A", "1A"]})
    assert shown["blocked"] == ["2B", "10A"]
    assert tell(switches, "switch.up", UP)["blocked"] == []


def test_the_last_overruns_are_kept() -> None:
    switches = board()
    for number in range(OVERRUNS_KEPT + 2):
        overrun: dict[str, Json] = {"reconfiguration": f"r{number}", "lost": ["1A-7B"], "window_s": 0.004}
        tell(switches, "switch.overrun", {"switch": "ocs1", **overrun})
    overruns = switches.to_data()[1]["overruns"]
    assert isinstance(overruns, list)
    assert len(overruns) == OVERRUNS_KEPT
    assert overruns[-1] == {
        "wall_ns": 0,
        "reconfiguration": f"r{OVERRUNS_KEPT + 1}",
        "lost": ["1A-7B"],
        "window_s": 0.004,
    }


def test_the_last_restart_is_kept_when_the_switch_is_up_again() -> None:
    switches = board()
    restart: dict[str, Json] = {
        "sign": "at-rest",
        "lost": ["1A-2B", "3A-4B", "5A-6B"],
        "uptime_s": None,
        "unheard_s": 4.5,
    }
    assert tell(switches, "switch.up", UP)["restart"] is None
    assert tell(switches, "switch.restarted", {"switch": "ocs1", **restart})["restart"] == {
        "wall_ns": 0,
        **restart,
        "missing": ["1A-2B", "3A-4B", "5A-6B"],
    }

    def missing(*there: str, added: tuple[str, ...]) -> Json:
        read: dict[str, Json] = {"crossconnects": [{"id": one, "state": "tuned"} for one in there], "ours": True}
        left = tell(switches, "switch.read", {"switch": "ocs1", **read, "added": [*added], "removed": []})["restart"]
        assert isinstance(left, dict)
        assert left["lost"] == restart["lost"]
        found: Json = left["missing"]
        return found

    assert missing(added=()) == ["1A-2B", "3A-4B", "5A-6B"]
    assert missing("1A-2B", added=("1A-2B",)) == ["3A-4B", "5A-6B"]
    assert missing("1A-2B", "3A-7B", added=("3A-7B",)) == ["5A-6B"], "somebody has put another in its place"
    assert missing(added=()) == ["5A-6B"], "and what is taken away later is not missed"


def test_documents_of_others_change_nothing() -> None:
    switches = board()
    before = switches.to_data()
    tell(switches, "switch.up", {**UP, "switch": "ocs9"})
    tell(switches, "host.up", {"host": "ocs1"})
    tell(switches, "switch.command", {"switch": "ocs1", "verb": "connect"})
    assert switches.to_data() == before


def test_what_is_shown_is_a_copy() -> None:
    switches = board()
    switches.to_data()[1]["up"] = True
    assert switches.to_data()[1]["up"] is False
