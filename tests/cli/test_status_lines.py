"""Lines of `hwd status` on alerts, last changes and the disk."""

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from hwd.cli.status_lines import SHOWN_ALERTS, alert_lines, change_lines, disk_line, since, storage_lines
from hwd.model.answers import Alert, DiskSpace, RestartReport, StorageStatus, SwitchChange, SwitchStatus

NOON_NS = 1_700_049_600_000_000_000
"""2023-11-15 12:00:00 UTC"""
DAY_NS = 86_400_000_000_000


@pytest.fixture(autouse=True)
def in_utc() -> Iterator[None]:
    """The time zone of this machine, as the commands find it."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


def text(parts: tuple[object, ...]) -> str:
    return "".join(map(str, parts))


def test_a_restart_whose_losses_have_a_line_of_their_own_is_no_second_line() -> None:
    lost = ["1A-2B"]
    restart = RestartReport(wall_ns=NOON_NS, sign="at-rest", lost=lost, uptime_s=None, unheard_s=2.0, missing=lost)
    restarted = replace(switch("ocs1", change(origin="restart", added=[], removed=lost)), restart=restart)
    assert change_lines([restarted], NOON_NS) == []
    back = replace(restarted, restart=replace(restart, missing=[]))
    assert change_lines([back], NOON_NS) == ["ocs1: found at 12:00:00: a restart of the switch: -1A-2B"]


@pytest.mark.parametrize(
    ("wall_ns", "now_ns", "shown"),
    [
        (NOON_NS, NOON_NS + 3_000_000_000, "12:00:00"),
        (NOON_NS, NOON_NS + DAY_NS, "2023-11-15 12:00:00"),
        (NOON_NS, None, "2023-11-15 12:00:00"),
        (None, NOON_NS, ""),
    ],
    ids=["today", "yesterday", "no now", "not seen"],
)
def test_time_of_another_day_has_its_date(wall_ns: int | None, now_ns: int | None, shown: str) -> None:
    assert since(wall_ns, now_ns) == shown


def alert(subject: str) -> Alert:
    return Alert(
        name="SwitchDown",
        severity="critical",
        subject=subject,
        since_wall_ns=NOON_NS,
        summary="has no session: refused",
    )


def test_alert_is_one_line_and_many_are_cut() -> None:
    assert alert_lines([], NOON_NS) == []
    (line,) = alert_lines([alert("ocs1")], NOON_NS)
    assert text(line) == "alert SwitchDown (critical) ocs1: has no session: refused; since 12:00:00"
    lines = alert_lines([alert(f"ocs{number}") for number in range(SHOWN_ALERTS + 2)], NOON_NS)
    assert len(lines) == SHOWN_ALERTS + 1
    assert text(lines[-1]) == "and 2 alerts more: hwd status --json"


SECOND_NS = 1_000_000_000


def test_event_has_the_time_when_it_was_and_no_state_that_lasts() -> None:
    once = replace(alert("ocs1"), last_wall_ns=NOON_NS)
    often = replace(alert("ocs1"), last_wall_ns=NOON_NS + 90 * SECOND_NS)
    ends = [text(line).rpartition("; ")[2] for line in alert_lines([once, often], NOON_NS)]
    assert ends == ["at 12:00:00", "12:00:00 to 12:01:30"]


def test_reason_that_several_alerts_have_is_said_once_and_a_long_one_is_cut() -> None:
    why = f"not ready within 2 s: {', '.join(f'h{one}.eth0<->h{one + 1}.eth0 hangs' for one in range(20))}"
    back = replace(alert("r1"), name="ReconfigurationRolledBack", summary=f"went back: {why}")
    failed = replace(alert("k3v9"), name="RunFailed", summary=f"failed: steps[2]: apply: {why}; at rest")
    lines = [text(line) for line in alert_lines([back, failed], NOON_NS)]
    assert "went back: not ready within 2 s: h0.eth0<->h1.eth0 hangs" in lines[0]
    assert "... (whole: hwd status --json); since 12:00:00" in lines[0]
    assert lines[1] == "alert RunFailed (critical) k3v9: failed: steps[2]: apply: see r1; at rest; since 12:00:00"
    assert max(map(len, lines)) < 350


def test_journal_and_records_that_cannot_be_written_are_said_under_the_alerts() -> None:
    well = StorageStatus(writable=True, why=None)
    assert storage_lines(well, well) == []
    bad = StorageStatus(writable=False, why="No space left on device")
    said = [text(line) for line in storage_lines(bad, bad)]
    assert said == ["failed: No space left on device", "records failed: No space left on device"]


def switch(name: str, change: SwitchChange | None) -> SwitchStatus:
    return SwitchStatus(switch=name, owner=None, up=True, cause="", last_change=change)


def change(**fields: Any) -> SwitchChange:
    known: dict[str, Any] = {"wall_ns": NOON_NS, "origin": "reconfiguration", "added": ["1A-2B"], "removed": []}
    return SwitchChange(**{**known, **fields})


def test_switches_that_one_reconfiguration_changed_are_one_line_and_the_newest_is_first() -> None:
    ours = change(reconfiguration="k3v9", what="pairs", outcome="confirmed", run="q7")
    foreign = change(origin="other", wall_ns=NOON_NS + 5_000_000_000)
    switches = [switch("ocs1", ours), switch("ocs2", foreign), switch("ocs3", ours), switch("ocs4", None)]
    assert change_lines(switches, NOON_NS) == [
        "ocs2: found at 12:00:05: not by this daemon: +1A-2B",
        "ocs1, ocs3: changed at 12:00:00: reconfiguration k3v9 (pairs), confirmed, run q7",
    ]
    many = [switch(f"x{number}", ours) for number in range(8)]
    assert change_lines(many, NOON_NS)[0].startswith("x0, x1, x2, x3, x4, x5 and 2 more: changed at")


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({}, "disk 5.0 of 9.0 GB free at /data"),
        ({"free_bytes": 999_999_999}, "disk little: 1000 of 9000 MB free at /data"),
        ({"free_bytes": None, "why": "gone"}, "disk unknown: free space of /data is unknown: gone"),
        ({"read_wall_ns": NOON_NS - 600_000_000_000}, "disk 5.0 of 9.0 GB free at /data, read 10 min ago"),
    ],
    ids=["enough", "little", "unreadable", "old"],
)
def test_disk_is_loud_where_it_is_little_or_unknown(fields: dict[str, Any], line: str) -> None:
    known: dict[str, Any] = {"path": "/data", "free_bytes": 5 * 10**9, "total_bytes": 9 * 10**9, "why": ""}
    assert text(disk_line(DiskSpace(**{**known, "read_wall_ns": NOON_NS, **fields}), NOON_NS)) == line
    assert disk_line(None, NOON_NS) == ()
