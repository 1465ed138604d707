"""Rows of `hwd status`."""

import re
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hwd.cli.commands.status import (
    confirm_words,
    desired_words,
    difference_rows,
    hang_lines,
    host_row,
    left_open,
    link_row,
    no_links,
    overrun_lines,
    port_lines,
    restart_line,
    run_line,
    skew_lines,
    spool_lines,
    switch_row,
    unlit_words,
    with_joint_advice,
)
from hwd.model.answers import (
    HostStatus,
    LeftOpen,
    LinkStatus,
    PreparedSetStatus,
    ReconfigurationStatus,
    SwitchDesired,
    SwitchStatus,
    UnlitLink,
)
from hwd.model.run import RunProgress


def switch(data: dict[str, Any]) -> SwitchStatus:
    return msgspec.convert(data, SwitchStatus)


def host(data: dict[str, Any]) -> HostStatus:
    return msgspec.convert(data, HostStatus)


LEASE = {"host": "h0", "epoch": 7, "state": "granted"}
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


@pytest.mark.parametrize(
    ("data", "row"),
    [
        (UP, ("ocs1", "up", "Polatis 6000 7", "1")),
        ({**UP, "crossconnects": []}, ("ocs1", "up", "Polatis 6000 7", "none")),
        (
            {**UP, "crossconnects": [{"id": "1A-2B", "state": "blocked"}], "blocked": ["1A"]},
            ("ocs1", "up", "Polatis 6000 7", "1 blocked; 1A held dark"),
        ),
        (
            {**UP, "blocked": [f"{port}A" for port in range(1, 9)]},
            ("ocs1", "up", "Polatis 6000 7", "1; 1A, 2A, 3A, 4A, 5A, 6A and 2 more held dark"),
        ),
        ({**UP, "up": False, "cause": "reset by peer"}, ("ocs1", "down", "reset by peer", "")),
        (
            {**UP, "up": None, "owner": "h0", "cause": "h0 is away"},
            ("ocs1", "unknown", "host h0, no lease yet; h0 is away", ""),
        ),
        (
            {
                **UP,
                "owner": "h0",
                "lease": LEASE,
                "crossconnects": [{"id": "in-2", "state": "unstated"}],
            },
            ("ocs1", "up", "host h0, epoch 7; Polatis 6000 7", "in-2"),
        ),
        (
            {
                **UP,
                "up": False,
                "cause": "no line",
                "owner": "h0",
                "lease": {"host": "h0", "epoch": 7, "state": "taken-back"},
            },
            ("ocs1", "down", "host h0, epoch 7, taken back; no line", ""),
        ),
    ],
    ids=["up", "empty", "with an end held dark", "with many", "down", "a host's own", "set by its host", "taken back"],
)
def test_a_switch_is_up_or_down_or_owned_by_a_host(data: dict[str, Any], row: tuple[str, ...]) -> None:
    assert switch_row(switch(data)) == row


def test_the_status_has_an_overrun_with_the_lost_crossconnects() -> None:
    overrun = {"wall_ns": 1_700_000_000_000_000_000, "reconfiguration": "k3v9", "lost": ["1A-7B"], "window_s": 0.0042}
    (parts,) = overrun_lines(switch({**UP, "overruns": [overrun]}))
    said = (
        r"ocs1 .*overrun.* at \d\d:\d\d:\d\d: 1A-7B of another client was lost to reconfiguration k3v9; it "
        r"was made in the 4.2 ms between our read and our write"
    )
    assert re.fullmatch(said, "".join(map(str, parts)))
    assert overrun_lines(switch(UP)) == []


HELD = PreparedSetStatus(
    prepared_set="s1", lease="l1", holder="ada", rule="finish", at=None, why="", switching=None, targets=[], ports=[],
    expires_in_s=None,
)  # fmt: skip


@pytest.mark.parametrize(("sign", "how"), [("uptime", "has restarted"), ("at-rest", "seems to have restarted")])
def test_a_restart_stands_in_the_status_until_what_it_took_is_there_again(sign: str, how: str) -> None:
    restart: dict[str, Any] = {
        "wall_ns": 1_700_000_000_000_000_000,
        "sign": sign,
        "missing": ["3A-4B"],
        "unheard_s": 14.0,
    }
    restart |= {"lost": ["3A-4B"], "uptime_s": None}
    line = restart_line(switch({**UP, "restart": restart}))
    said = (
        rf"ocs1 {how} at \d\d:\d\d:\d\d, no contact for 14 s before. "
        r"It lost 3A-4B; `hwd restore` brings back what is desired of it"
    )
    assert re.fullmatch(said, line), line
    assert restart_line(switch({**UP, "restart": {**restart, "missing": []}})) == ""
    held = replace(HELD, ports=["ocs1.3", "ocs1.4", "h0.eth0"])
    also = "; `hwd switch s1 TARGET` what set s1 has there"
    assert restart_line(switch({**UP, "restart": restart}), [held]) == f"{line}{also}"
    assert restart_line(switch({**UP, "restart": restart}), [replace(held, ports=["ocs10.3"])]) == line
    assert restart_line(switch({**UP, "restart": None})) == ""
    assert "hwd restore" not in restart_line(switch({**UP, "restart": restart, "owner": "h0"})), "its host sets it"


RUN = {
    "run": "k3v9",
    "playbook": "smoke",
    "state": "running",
    "steps": 5,
    "queued_wall_ns": 0,
    "done": 2,
    "total": 5,
    "what": "wait until ready",
    "stage": "waiting",
    "expected_s": 40.0,
    "by": None,
    "waits_for": [],
}


@pytest.mark.parametrize(
    ("run", "line"),
    [
        (RUN, "run k3v9 (smoke): 2 of 5 steps, wait until ready (waiting), about 40 s to go"),
        ({**RUN, "what": None, "stage": None, "expected_s": 0.0}, "run k3v9 (smoke): 2 of 5 steps, about to begin"),
        (
            {**RUN, "state": "paused", "by": "ada", "stage": None},
            "run k3v9 (smoke): 2 of 5 steps, paused by ada; hwd resume k3v9, about 40 s to go",
        ),
    ],
    ids=["running", "new", "paused"],
)
def test_a_run_says_where_it_is(run: dict[str, Any], line: str) -> None:
    assert run_line(msgspec.convert(run, RunProgress)) == line


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
    "heard_wall_ns": 1_700_000_000_000_000_000,
    "clock": CLOCK,
    "ports": {"eth0": PORT, "eth1": {**PORT, "carrier": False}},
}


def test_a_host_whose_agent_is_too_far_from_the_daemon_is_named() -> None:
    skew = "agent 0.3.0 and daemon 0.1.0 are more than one minor version apart. Upgrade the daemon"
    assert skew_lines(host({**HOST, "skew": skew})) == [f"h0: {skew}"]
    assert skew_lines(host({**HOST, "skew": ""})) == skew_lines(host(HOST)) == []


def test_a_host_that_is_heard_says_its_clock_and_its_carriers() -> None:
    assert host_row(host(HOST), connected=True) == ("h0", "up", "+5.000000 s ± 12 µs", "1 of 2")


def test_a_step_of_the_clock_is_in_the_row_of_its_host() -> None:
    clock = {
        **CLOCK,
        "via": "udp",
        "steps": 2,
        "step": {"by_ns": -30 * 10**9, "error_ns": 1, "earliest_ns": 0, "latest_ns": 1},
    }
    assert str(host_row(host({**HOST, "clock": clock}), connected=True)[2]).endswith(
        "µs, stepped 2 times, last by -30.000 s"
    )
    quiet = {**CLOCK, "via": "udp", "steps": 0, "step": None}
    assert str(host_row(host({**HOST, "clock": quiet}), connected=True)[2]).endswith("µs")


def test_carriers_not_reported_since_the_reconnect_are_unknown() -> None:
    ports = {"eth0": {**PORT, "carrier": None}, "eth1": PORT}
    assert host_row(host({**HOST, "ports": ports}), connected=True)[-1] == "1 of 2, 1 unknown"


@pytest.mark.parametrize(("connected", "state"), [(False, "unknown"), (True, "down")])
def test_a_host_that_is_not_heard_is_not_up_and_nothing_old_is_said_of_it(connected: bool, state: str) -> None:
    away = {**HOST, "up": False, "cause": "the broker is not connected"}
    name, said, why, carriers = host_row(host(away), connected=connected)
    assert (name, said, carriers) == ("h0", state, "unknown")
    assert re.fullmatch(r"not heard since \d\d:\d\d:20: the broker is not connected", str(why))


@pytest.mark.parametrize(
    "why", ["no agent of it was heard since the daemon started", "nothing was heard of it since the broker is back"]
)
def test_host_of_which_nothing_was_heard_yet_is_unknown_and_not_down(why: str) -> None:
    never = {**HOST, "up": False, "heard_wall_ns": None, "cause": why}
    assert host_row(host(never), connected=True) == ("h0", "unknown", why, "unknown")
    assert str(host(never)) == f"h0 unknown: {why}"


def test_hosts_that_are_down_alike_have_one_command_for_all_of_them() -> None:
    def refused(name: str, why: str = "bad password") -> HostStatus:
        cause = f"the broker refuses its agent: {why}. `hwd agent deploy {name}` brings it its password"
        return host({**HOST, "host": name, "up": False, "heard_wall_ns": None, "cause": cause})

    causes = [one.cause for one in with_joint_advice([refused("h0"), refused("h1"), refused("h2", "no such user")])]
    assert ["`hwd agent deploy h0 h1` brings" in cause for cause in causes] == [True, True, False]
    assert "`hwd agent deploy h2` brings" in causes[2]


def test_what_stays_open_says_whose_it_is_and_that_it_goes_by_itself() -> None:
    data = {
        "reconfiguration": "5ed4uu6j",
        "run": "k3v9",
        "what": "pairs groups=pp",
        "why": "ocs1: the switch is down",
        "tried_wall_ns": None,
        "goes": "back",
        "ports": ["h0.eth0", "ocs1.1"],
    }
    assert left_open(msgspec.convert(data, LeftOpen)) == (
        "reconfiguration 5ed4uu6j (pairs groups=pp) of run k3v9 open: ocs1: the switch is down; "
        "goes back by itself when that is over; 2 ports held"
    )


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ({"carrier": True, "away": []}, "up"),
        ({"carrier": None, "away": []}, "unknown"),
        ({"carrier": None, "away": ["ocs2"]}, "unknown, ocs2 is down"),
        ({"carrier": None, "away": ["ocs1", "ocs2"]}, "unknown, ocs1, ocs2 are down"),
    ],
    ids=["up", "untold", "a switch down", "two down"],
)
def test_a_link_says_which_switch_on_its_way_is_down(link: dict[str, Any], said: str) -> None:
    assert link_row(msgspec.convert({"link": "h0.eth0<->h1.eth0", **link}, LinkStatus)) == ("h0.eth0<->h1.eth0", said)


def test_links_that_hang_have_a_line_each_with_the_powers_that_are_known() -> None:
    hang = {
        "link": "h0.eth0<->h1.eth0",
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
    links = msgspec.convert(
        [
            {"link": "h0.eth0<->h1.eth0", "carrier": False, "hang": hang},
            {"link": "h0.eth1<->h1.eth1", "carrier": True},
        ],
        list[LinkStatus],
    )
    assert hang_lines(links, (), None) == [
        "h0.eth0<->h1.eth0 hangs at h1.eth0, optical: light is lost inside ocs1, in 1A-3B (h0.eth0.tx -2.0 to 1.0 dBm "
        "a lane, dark on lane 3, ocs1.1A -2.1 dBm, ocs1.3B dark, h1.eth0.rx 0.0 dBm a lane)"
    ]
    applying = ReconfigurationStatus(
        reconfiguration="r1", run=None, what="ring", hash="0", lease=None, state="waiting", outcome=None, why="",
        confirm_in_s=None, links=["h0.eth0<->h1.eth0"], not_ready=[],
    )  # fmt: skip
    [line] = hang_lines(links, [applying], None)
    assert line.startswith("h0.eth0<->h1.eth0 is coming up, waits at h1.eth0, optical: ")
    [line] = hang_lines(links, [replace(applying, state="awaiting-confirm")], None)
    assert line.startswith("h0.eth0<->h1.eth0 hangs at"), "nobody waits for its links any more"


@pytest.mark.parametrize(
    ("made_s", "since_s", "is_coming"),
    [(99, 99, True), (81, 82, True), (79, 79, False), (None, 99, False), (90, None, True), (90, 95, False)],
    ids=["made 1 s ago", "made 19 s ago", "made 21 s ago", "not seen made", "not seen dark", "it was up for a while"],
)
def test_a_link_hangs_only_after_the_time_that_a_link_may_take(
    made_s: int | None, since_s: int | None, is_coming: bool
) -> None:
    hang = {"link": "h0.eth0<->h1.eth0", "end": None, "stage": "firmware", "why": "the PHY is up at neither end"}
    link = {"link": "h0.eth0<->h1.eth0", "carrier": False, "hang": hang}
    link |= {"made_wall_ns": made_s and made_s * 10**9, "since_wall_ns": since_s and since_s * 10**9}
    at = "at both ends, firmware: the PHY is up at neither end"
    [line] = hang_lines([msgspec.convert(link, LinkStatus)], (), 100 * 10**9)
    assert line == f"h0.eth0<->h1.eth0 {f'is coming up, waits {at}' if is_coming else f'hangs {at}'}"


AWAITED = ReconfigurationStatus(
    reconfiguration="r1", run=None, what="ring", hash="0", lease=None, state="awaiting-confirm", outcome=None, why="",
    confirm_in_s=58.2, links=[], not_ready=[],
)  # fmt: skip


def test_a_confirm_is_awaited_until_a_time_and_then_it_goes_back() -> None:
    words = confirm_words(AWAITED, 1_700_000_000_000_000_000)
    assert re.fullmatch(r" until \d\d:\d\d:18, for another 58.2 s; then it goes back, unless: hwd confirm r1", words)
    assert confirm_words(replace(AWAITED, confirm_in_s=None), 1_700_000_000_000_000_000) == ""


def test_a_link_that_an_unconfirmed_change_took_away_comes_back() -> None:
    link = UnlitLink(link="h0.eth0<->h1.eth0", missing=["ocs1:1A-3B"], instead=["ocs1:1A-4B"], reconfiguration="r1")
    assert unlit_words(link, [AWAITED]) == "taken away by r1; comes back unless that is confirmed"
    driving = replace(AWAITED, state="driving", confirm_in_s=None)
    assert unlit_words(link, [driving]) == "taken away by reconfiguration r1, which is under way"
    alone = replace(link, reconfiguration=None)
    assert unlit_words(alone, [AWAITED]) == "wanted, and ocs1:1A-3B is missing; there is ocs1:1A-4B instead"


@pytest.mark.parametrize(
    ("switches", "said"),
    [
        ([UP], "no links"),
        ([UP, {**UP, "switch": "ocs2", "up": False, "crossconnects": []}], "no links known, ocs2 is down"),
        ([UP, {**UP, "switch": "ocs2", "up": False}], "no links"),
        ([{**UP, "up": None, "crossconnects": []}], "no links"),
    ],
    ids=["up", "never read and down", "read and down", "a host's own"],
)
def test_no_link_is_known_of_a_switch_that_is_down_and_of_which_nothing_was_read(
    switches: list[dict[str, Any]], said: str
) -> None:
    assert no_links([*map(switch, switches)]) == said


def test_a_spool_in_trouble_and_what_was_lost_have_a_line_each() -> None:
    assert spool_lines(host(HOST)) == []
    trouble = "cannot write: No space left on device; events are kept in memory. Free space on its file system"
    told = spool_lines(host({**HOST, "lost": 3, "spool": {"bytes": 4096, "limit_bytes": 65536, "trouble": trouble}}))
    assert told == [
        f"h0: spool: {trouble}",
        "h0: 3 events lost, or flaps not observed one by one: hwd watch --kind host.lost --after 0",
    ]


def test_a_port_whose_interface_is_not_there_has_a_line_with_the_remedy() -> None:
    remedy = "Use that name in the agent's file, or rename the interface"
    renamed = f"there is no interface eth3: it is now called weird0. {remedy}"
    port = {
        **PORT,
        "interface": "eth3",
        "present": False,
        "carrier": None,
        "sources": {"link": {**SOURCE, "why_not": renamed}},
    }
    there = {**PORT, "sources": {"link": SOURCE}}
    data = {**HOST, "up": True, "ports": {"eth0": there, "eth3": port}}
    assert port_lines(host(data)) == [f"h0.eth3: {renamed}"]
    untold = host({**data, "ports": {"eth3": {**port, "sources": {}}}})
    assert port_lines(untold) == ["h0.eth3: there is no interface eth3"]
    assert port_lines(host({**data, "up": False})) == []  # as it was found when the host was heard


def test_differences_of_a_switch_name_what_is_desired_what_is_there_and_who_wanted_it() -> None:
    one = SwitchDesired(
        switch="ocs1",
        crossconnects=["1A-2B", "3A-4B"],
        free=["5A"],
        by={"1A": "r1", "2B": "r1", "3A": "r2", "4B": "r2", "5A": "r3"},
        unknown=None,
        missing=["1A-2B", "3A-4B"],
        stale=["1A-7B", "5A-8B"],
        unasked=["9A-9B"],
        changing=[],
    )
    assert difference_rows(one) == [
        ("ocs1:1A-2B", "1A-2B", "1A-7B", "r1"),
        ("ocs1:3A-4B", "3A-4B", "nothing", "r2"),
        ("ocs1:5A-8B", "5A free", "5A-8B", "r3"),
    ]
    assert desired_words(one) == "2, 2 missing, 2 stale, 1 not asked for"
    assert desired_words(replace(one, missing=[], stale=[], unasked=[])) == "2, as desired"
    away = replace(one, unknown="no session yet", missing=None, stale=None, unasked=None)
    assert desired_words(away) == "2, unknown whether it is so"
    assert desired_words(None) == "nothing yet"


@pytest.mark.parametrize(
    ("changing", "missing", "awaits", "words"),
    [
        (["ocs1.1", "ocs1.2"], [], True, "2, 2 ports await a confirm, the rest as desired"),
        (["ocs1.1"], ["3A-4B"], True, "2, 1 port awaits a confirm, 1 missing"),
        (["ocs1.1", "ocs1.2"], [], False, "2, 2 ports changing, the rest as desired"),
        (["ocs1.1", "ocs1.2", "ocs1.3", "ocs1.4"], [], True, "2, 4 ports await a confirm"),
        ([], [], True, "2, as desired"),
    ],
)
def test_ports_that_a_change_has_are_not_said_to_be_as_desired(
    changing: list[str], missing: list[str], awaits: bool, words: str
) -> None:
    one = SwitchDesired(
        switch="ocs1", crossconnects=["1A-2B", "3A-4B"], free=[], by={"1A": "r1", "2B": "r1", "3A": "r2", "4B": "r2"},
        unknown=None, missing=missing, stale=[], unasked=[], changing=changing,
    )  # fmt: skip
    assert desired_words(one, awaits=awaits) == words
