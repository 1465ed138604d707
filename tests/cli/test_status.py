"""What `hwd status` says of each thing, held by a golden file."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hwd.cli.commands.status import (
    confirm_words,
    desired_words,
    difference_rows,
    hang_lines,
    left_open,
    link_row,
    no_links,
    overrun_lines,
    restart_line,
    run_line,
    switch_row,
    unlit_words,
)
from hwd.cli.host_lines import host_lines, host_row, with_joint_advice
from hwd.cli.status_lines import SHOWN_ALERTS, alert_lines, change_lines, disk_line, since, storage_lines
from hwd.model.desired_state import SwitchDesired, UnlitLink
from hwd.model.host import HostStatus
from hwd.model.link import Link
from hwd.model.prepared_set import PreparedSetStatus
from hwd.model.reconfiguration import LeftOpen, ReconfigurationStatus
from hwd.model.run import RunProgress, RunState
from hwd.model.status import Alert, DiskSpace, StorageStatus
from hwd.model.switch import LinkStatus, SwitchChange, SwitchStatus
from hwd_drivers.core.structs import from_plain

from ..answers import check_golden
from ..texts import by_end, ends_of, links_of, pairs_of, switch_pairs_of

GOLDEN = Path(__file__).with_name("status.txt")
NOON_NS = 1_700_049_600_000_000_000
"""2023-11-15 12:00:00 UTC"""
SECOND_NS = 10**9
DAY_NS = 86_400 * SECOND_NS
Told = Iterator[tuple[str, Iterable[object]]]
"""A case, and the lines of it."""


def line_of(found: object) -> str:
    """A row, or the parts of a line, as one text."""
    return (" | ".join(map(str, found)) if isinstance(found, tuple) else str(found)).rstrip()


UP: dict[str, Any] = {
    "switch": "ocs1",
    "owner": None,
    "up": True,
    "cause": "",
    "vendor": "Polatis",
    "model": "6000",
    "serial": "7",
    "crossconnects": [{"id": "1A-2B", "state": "unstated"}],
    "blocked": [],
    "overruns": [],
}
OVERRUN = {"wall_ns": NOON_NS, "reconfiguration": "k3v9", "lost": ["1A-7B"], "window_s": 0.0042}
LEASE = {"host": "h0", "epoch": 7, "state": "granted"}
LOST = {"wall_ns": NOON_NS, "missing": ["3A-4B"], "unheard_s": 14.0, "lost": ["3A-4B"], "uptime_s": None}
AT_REST = {"sign": "at-rest", **LOST}
HELD = PreparedSetStatus(
    prepared_set="s1", lease="l1", holder="ada", rule="finish", at=None, why="", switching=None, targets=[], ports=[],
    expires_in_s=None,
)  # fmt: skip


def switch(**data: Any) -> SwitchStatus:
    return from_plain({**UP, **data}, SwitchStatus)


def of_switches() -> Told:
    for words, one in {
        "up": switch(),
        "empty": switch(crossconnects=[]),
        "with an end held dark": switch(crossconnects=[{"id": "1A-2B", "state": "blocked"}], blocked=["1A"]),
        "with many": switch(blocked=[f"{port}A" for port in range(1, 9)]),
        "down": switch(up=False, cause="reset by peer"),
        "a host's own": switch(up=None, owner="h0", cause="h0 is away"),
        "set by its host": switch(owner="h0", lease=LEASE, crossconnects=[{"id": "in-2", "state": "unstated"}]),
        "taken back": switch(up=False, cause="no line", owner="h0", lease={**LEASE, "state": "taken-back"}),
        "overrun": switch(overruns=[OVERRUN]),
    }.items():
        yield f"switch, {words}", [switch_row(one), *("".join(map(str, parts)) for parts in overrun_lines(one))]
    held = replace(HELD, ports=["ocs1.3", "ocs1.4", "h0.eth0"])
    yield "switch, restarted by its uptime", [restart_line(switch(restart={**AT_REST, "sign": "uptime"}))]
    yield "switch, seems restarted", [restart_line(switch(restart=AT_REST))]
    yield "switch, restarted under a set", [restart_line(switch(restart=AT_REST), [held])]
    yield "switch, restarted beside a set", [restart_line(switch(restart=AT_REST), [replace(held, ports=["ocs10.3"])])]
    yield "switch, restarted, what it lost is back", [restart_line(switch(restart={**AT_REST, "missing": []}))]
    yield "switch, not restarted", [restart_line(switch(restart=None))]
    yield "switch, restarted, which its host sets", [restart_line(switch(restart=AT_REST, owner="h0"))]
    away = {"switch": "ocs2", "up": False}
    for words, switches in {
        "up": [switch()],
        "never read and down": [switch(), switch(**away, crossconnects=[])],
        "read and down": [switch(), switch(**away)],
        "a host's own": [switch(up=None, crossconnects=[])],
    }.items():
        yield f"no link, {words}", [no_links(switches)]


def changed(name: str, **fields: Any) -> SwitchStatus:
    known: dict[str, Any] = {"wall_ns": NOON_NS, "origin": "reconfiguration", "added": ["1A-2B"], "removed": []}
    return SwitchStatus(switch=name, owner=None, up=True, cause="", last_change=SwitchChange(**{**known, **fields}))


def of_changes() -> Told:
    """Switches that one reconfiguration changed are one line; the newest is first; a restart may have another line."""
    ours: dict[str, Any] = {"reconfiguration": "k3v9", "what": "pairs", "outcome": "confirmed", "run": "q7"}
    other = changed("ocs2", origin="other", wall_ns=NOON_NS + 5 * SECOND_NS)
    untouched = replace(other, switch="ocs4", last_change=None)
    switches = [changed("ocs1", **ours), other, changed("ocs3", **ours), untouched]
    yield "changes", change_lines(switches, NOON_NS)
    yield "changes, many", change_lines([changed(f"x{number}", **ours) for number in range(8)], NOON_NS)
    restart = switch(restart=AT_REST).restart
    assert restart is not None
    restarted = replace(changed("ocs1", origin="restart", added=[], removed=["3A-4B"]), restart=restart)
    yield "changes, a restart", change_lines([restarted], NOON_NS)
    back = replace(restarted, restart=replace(restart, missing=[]))
    yield "changes, a restart, what it lost is back", change_lines([back], NOON_NS)


def of_desired() -> Told:
    one = SwitchDesired(
        switch="ocs1",
        crossconnects=pairs_of("1A-2B", "3A-4B"),
        free=ends_of("5A"),
        by=by_end({"1A": "r1", "2B": "r1", "3A": "r2", "4B": "r2", "5A": "r3"}),
        unknown=None,
        missing=pairs_of("1A-2B", "3A-4B"),
        stale=pairs_of("1A-7B", "5A-8B"),
        unasked=pairs_of("9A-9B"),
        changing=[],
    )
    yield "desired, differs", [*difference_rows(one), desired_words(one)]
    so = replace(one, missing=[], stale=[], unasked=[])
    yield "desired, is so", [desired_words(so), desired_words(so, awaits=True)]
    away = replace(one, unknown="no session yet", missing=None, stale=None, unasked=None)
    yield "desired, unknown", [desired_words(away)]
    yield "desired, nothing", [desired_words(None)]
    two = replace(so, free=[], unasked=[], changing=["ocs1.1", "ocs1.2"])
    yield "desired, two ports await a confirm", [desired_words(two, awaits=True)]
    yield "desired, two ports change", [desired_words(two, awaits=False)]
    missing = replace(two, changing=["ocs1.1"], missing=["3A-4B"])
    yield "desired, one port awaits a confirm", [desired_words(missing, awaits=True)]
    every = replace(two, changing=[f"ocs1.{port}" for port in range(1, 5)])
    yield "desired, every port awaits a confirm", [desired_words(every, awaits=True)]


RUN = RunProgress(
    run="k3v9", playbook="smoke", state=RunState.RUNNING, steps=5, queued_wall_ns=0, done=2, total=5,
    what="wait until ready", stage="waiting", expected_s=40.0, by=None, waits_for=(),
)  # fmt: skip
APPLYING = ReconfigurationStatus(
    reconfiguration="r1", run=None, what="ring", hash="0", lease=None, state="waiting", outcome=None, why="",
    confirm_in_s=None, links=links_of("h0.eth0<->h1.eth0"), not_ready=[],
)  # fmt: skip
AWAITED = replace(APPLYING, state="awaiting-confirm", confirm_in_s=58.2)
OPEN = LeftOpen(
    reconfiguration="5ed4uu6j", run="k3v9", what="pairs groups=pp", why="ocs1: the switch is down", tried_wall_ns=None,
    goes="back", ports=["h0.eth0", "ocs1.1"],
)  # fmt: skip


def of_what_is_under_way() -> Told:
    yield "run", [run_line(RUN)]
    yield "run, new", [run_line(replace(RUN, what=None, stage=None, expected_s=0.0))]
    yield "run, paused", [run_line(replace(RUN, state=RunState.PAUSED, by="ada", stage=None))]
    yield "open", [left_open(OPEN)]
    yield "awaits a confirm", [confirm_words(AWAITED, NOON_NS)]
    yield "awaits a confirm without end", [confirm_words(replace(AWAITED, confirm_in_s=None), NOON_NS)]
    link = UnlitLink(
        link=Link.parse("h0.eth0<->h1.eth0"),
        missing=switch_pairs_of("ocs1:1A-3B"),
        instead=switch_pairs_of("ocs1:1A-4B"),
        reconfiguration="r1",
    )
    yield "unlit, not confirmed", [unlit_words(link, [AWAITED])]
    yield "unlit, under way", [unlit_words(link, [replace(AWAITED, state="driving", confirm_in_s=None)])]
    yield "unlit, by nobody", [unlit_words(replace(link, reconfiguration=None), [AWAITED])]


CLOCK: dict[str, Any] = {
    "boot": "b",
    "offset_ns": 5_000_000_000,
    "drift_ppm": 0.0,
    "error_ns": 12_000,
    "agent_ns": 0,
    "samples": 5,
    "drift_error_ppm": 0.1,
    "round_trip_ns": 9_000,
    "via": "udp",
    "why_not_udp": "",
    "steps": 0,
    "step": None,
}
SOURCE = {"sees": ["carrier"], "origin": "kernel"}
PORT: dict[str, Any] = {
    "interface": "eth0",
    "present": True,
    "ip": None,
    "carrier": True,
    "carrier_changes": 1,
    "probe_port": None,
    "sources": {},
    "rdma": None,
}
HOST: dict[str, Any] = {
    "host": "h0",
    "up": True,
    "cause": "",
    "heard_wall_ns": NOON_NS,
    "clock": CLOCK,
    "ports": {"eth0": PORT, "eth1": {**PORT, "carrier": False}},
}


def host(**data: Any) -> HostStatus:
    return from_plain({**HOST, **data}, HostStatus)


def of_hosts() -> Told:
    stepped = {"steps": 2, "step": {"by_ns": -30 * 10**9, "error_ns": 1, "earliest_ns": 0, "latest_ns": 1}}
    yield "host", [host_row(host(), connected=True)]
    yield "host, its clock was set", [host_row(host(clock={**CLOCK, **stepped}), connected=True)]
    untold = {"eth0": {**PORT, "carrier": None}, "eth1": PORT}
    yield "host, a carrier not told since the reconnect", [host_row(host(ports=untold), connected=True)]
    away = host(up=False, cause="the broker is not connected")
    yield "host, away", [host_row(away, connected=True)]
    yield "host, away with the broker", [host_row(away, connected=False)]
    for why in "no agent of it was heard since the daemon started", "nothing was heard of it since the broker is back":
        never = host(up=False, heard_wall_ns=None, cause=why)
        yield "host, never heard", [host_row(never, connected=True), never]
    refused = [
        host(host=name, up=False, heard_wall_ns=None,
             cause=f"the broker refuses its agent: {why}. `hwd agent deploy {name}` brings it its password")
        for name, why in (("h0", "bad password"), ("h1", "bad password"), ("h2", "no such user"))
    ]  # fmt: skip
    yield "hosts, down alike", [one.cause for one in with_joint_advice(refused)]
    skew = "agent 0.3.0 and daemon 0.1.0 are more than one minor version apart. Upgrade the daemon"
    trouble = "cannot write: No space left on device; events are kept in memory. Free space on its file system"
    spool = {"bytes": 4096, "limit_bytes": 65536, "trouble": trouble}
    renamed = "there is no interface eth3: it is now called weird0. Use that name in the agent's file"
    gone = {**PORT, "interface": "eth3", "present": False, "carrier": None}
    ports = {"eth0": {**PORT, "sources": {"link": SOURCE}}}
    named = {**ports, "eth3": {**gone, "sources": {"link": {**SOURCE, "why_not": renamed}}}}
    for words, one in {
        "well": host(),
        "of another version": host(skew=skew),
        "not served": host(trouble="its events: KeyError: 'x'"),
        "its spool is full": host(lost=3, spool=spool),
        "an interface has another name": host(ports=named),
        "an interface is gone": host(ports={**ports, "eth3": gone}),
        "away and an interface was gone": host(up=False, ports=named),
    }.items():
        yield f"host, {words}", host_lines(one)


LINK: dict[str, Any] = {"link": "h0.eth0<->h1.eth0", "carrier": False}
HANG: dict[str, Any] = {"link": "h0.eth0<->h1.eth0", "end": None, "stage": "firmware", "why": "the PHY is up nowhere"}
LOST_INSIDE = {
    "end": "h1.eth0",
    "stage": "optical",
    "why": "light is lost inside ocs1, in 1A-3B",
    "powers": [
        {"at": "h0.eth0.tx", "dbm": [1.04, -2.0, None], "by_lane": True},
        {"at": "ocs1.1A", "dbm": [-2.1]},
        {"at": "ocs1.3B", "dbm": [None]},
        {"at": "h1.eth0.rx", "dbm": [0.0, 0.04, 0.0], "by_lane": True},
    ],
}
MADE = {
    "made 1 s ago": (99, 99),
    "made 19 s ago": (81, 82),
    "made 21 s ago": (79, 79),
    "not seen made": (None, 99),
    "not seen dark": (90, None),
    "was up for a while": (90, 95),
}
"""When it was made, and since when it is dark; it is 100 s."""


def of_links() -> Told:
    for words, carrier, away in (
        ("up", True, []),
        ("untold", None, []),
        ("a switch down", None, ["ocs2"]),
        ("two down", None, ["ocs1", "ocs2"]),
    ):
        one = from_plain({**LINK, "carrier": carrier, "away": away}, LinkStatus)
        yield f"link, {words}", [link_row(one)]
    up = {"link": "h0.eth1<->h1.eth1", "carrier": True}
    links = from_plain([{**LINK, "hang": {**HANG, **LOST_INSIDE}}, up], list[LinkStatus])
    yield "link, hangs", hang_lines(links, (), None)
    yield "link, is applied", hang_lines(links, [APPLYING], None)
    yield "link, nobody waits for it any more", hang_lines(links, [AWAITED], None)
    for words, (made_s, since_s) in MADE.items():
        made = {"made_wall_ns": made_s and made_s * SECOND_NS, "since_wall_ns": since_s and since_s * SECOND_NS}
        one = from_plain({**LINK, "hang": HANG, **made}, LinkStatus)
        yield f"link, {words}", hang_lines([one], (), 100 * SECOND_NS)


def of_alerts() -> Told:
    one = Alert(name="SwitchDown", severity="critical", subject="ocs1", since_wall_ns=NOON_NS, summary="has no session")
    many = [replace(one, subject=f"ocs{number}") for number in range(SHOWN_ALERTS + 2)]
    once, often = (replace(one, last_wall_ns=NOON_NS + after_s * SECOND_NS) for after_s in (0, 90))
    why = f"not ready within 2 s: {', '.join(f'h{one}.eth0<->h{one + 1}.eth0 hangs' for one in range(20))}"
    back = replace(one, subject="r1", name="ReconfigurationRolledBack", summary=f"went back: {why}")
    failed = replace(one, subject="k3v9", name="RunFailed", summary=f"failed: steps[2]: apply: {why}; at rest")
    for words, alerts in {
        "none": [],
        "many": many,
        "that are over": [once, often],
        "of one long reason": [back, failed],
    }.items():
        yield f"alerts, {words}", ["".join(map(str, parts)) for parts in alert_lines(alerts, NOON_NS)]
    well, bad = (StorageStatus(writable=not why, why=why) for why in (None, "No space left on device"))
    yield "storage, well", storage_lines(well, well)
    yield "storage, bad", storage_lines(bad, bad)
    yield "time, today", [since(NOON_NS, NOON_NS + 3 * SECOND_NS)]
    yield "time, yesterday", [since(NOON_NS, NOON_NS + DAY_NS)]
    yield "time, without a now", [since(NOON_NS, None)]
    yield "time, not seen", [since(None, NOON_NS)]
    disk = DiskSpace(path="/data", free_bytes=5 * 10**9, total_bytes=9 * 10**9, why="", read_wall_ns=NOON_NS)
    for words, space in {
        "enough": disk,
        "little": replace(disk, free_bytes=999_999_999),
        "unreadable": replace(disk, free_bytes=None, why="gone"),
        "old": replace(disk, read_wall_ns=NOON_NS - 600 * SECOND_NS),
        "none": None,
    }.items():
        yield f"disk, {words}", ["".join(map(str, disk_line(space, NOON_NS)))]


@pytest.mark.usefixtures("in_utc")
def test_status_says_what_it_said_of_each_thing() -> None:
    lines: list[str] = []
    for told in (of_switches, of_changes, of_desired, of_what_is_under_way, of_hosts, of_links, of_alerts):
        for case, found in told():
            lines += [f"== {case}", *map(line_of, found)]
    check_golden(GOLDEN, "\n".join([*lines, ""]))
