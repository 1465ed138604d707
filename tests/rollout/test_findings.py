"""What the doctor makes of facts, births and unit states: every red light in words, with the remedy."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Host, NicPort
from hwd.rollout.findings import Finding, Light, of_birth, of_disk, of_install, of_silence, of_unit
from hwd_agents.wire import Birth, HeldSetting, Inventory, PortNote, SourceNote, SpoolNote, State

from ..modules import LR4

HOST = Host(name="h0", ports=(NicPort(id=NicPortId(host="h0", port="eth0"), module=LR4, interface="ens1f0"),))
SEES = SourceNote(sees=["carrier"], origin="measured")
NOTE = PortNote(
    interface="ens1f0",
    present=True,
    ip=None,
    carrier=True,
    carrier_changes=2,
    probe_port=9,
    sources={"link": SEES, "probe": SEES},
)
BIRTH = Birth(
    boot="b",
    seq=1,
    host="h0",
    testbed="lab",
    version="0.1.0",
    at_ns=1,
    ports={"eth0": NOTE},
    inventory=Inventory(spool=SpoolNote(bytes=0, limit_bytes=16_000_000, why="")),
    spool_oldest_seq=1,
    spool_next_seq=1,
    spool_lost=0,
)
ACTIVE = {"LoadState": "loaded", "ActiveState": "active", "UnitFileState": "enabled", "NRestarts": "0", "MainPID": "7"}


def birth(**changes: Any) -> Birth:
    return msgspec.structs.replace(BIRTH, **changes)


def port(**changes: Any) -> Birth:
    return birth(ports={"eth0": msgspec.structs.replace(NOTE, **changes)})


def examined(birth: Birth, *, ours: str = "0.1.0", daemon: str | None = None) -> Sequence[Finding]:
    return of_birth(HOST, birth, ours=ours, daemon=daemon, links={"ens1f0": "up"})


def bad(findings: Sequence[Finding]) -> list[tuple[str, str, str]]:
    return [(one.light.value, one.subject, one.text) for one in findings if one.light is not Light.GREEN]


@pytest.mark.parametrize(
    ("state", "unreadable", "never", "words"),
    [
        (None, None, True, "the broker has none: no agent of this host has reached it, or it was removed since"),
        (None, "no JSON", True, "what came cannot be read: no JSON"),
        (None, None, False, "the agent is down: it never said that it is up"),
        (State(boot="b", seq=2, state="lost"), None, False, "the agent is down: its connection was lost"),
    ],
)
def test_an_agent_that_runs_and_is_not_heard_of_has_the_last_word(
    state: State | None, unreadable: str | None, never: bool, words: str
) -> None:
    stopped = of_silence(state, unreadable=unreadable, never=never, log=[])
    assert (stopped.light, stopped.subject, stopped.text) == (Light.RED, "birth", words)
    runs = of_silence(state, unreadable=unreadable, never=never, log=["broker: not authorized"])
    assert runs.text == f"{words}; it runs, and the end of its log is:\nbroker: not authorized"


def test_a_well_agent_has_nothing_but_green() -> None:
    assert bad(examined(BIRTH)) == []
    assert bad(of_unit("h0", {"service": ACTIVE, "log": [], "systemd": True})) == []


@pytest.mark.parametrize(
    ("sick", "light", "subject", "words"),
    [
        (birth(ports={}), "red", "port eth0", "the agent does not know it: hwd agent deploy h0"),
        (
            port(present=False),
            "red",
            "port eth0",
            "there is no interface ens1f0 on the host. Is the NIC there, and named so? Correct `interface` in the "
            "testbed file, then hwd agent deploy h0",
        ),
        (
            port(sources={"link": SourceNote(sees=[], origin="measured", why_not="netlink: not permitted")}),
            "red",
            "port eth0 link",
            "cannot see: netlink: not permitted",
        ),
        (
            port(sources={"phy": SourceNote(sees=[], origin="measured", why_not="Install mstflint")}),
            "yellow",
            "port eth0 phy",
            "cannot see: Install mstflint",
        ),
        (
            birth(
                inventory=Inventory(
                    spool=SpoolNote(why="cannot write: No space left on device. Free space on its file system")
                )
            ),
            "red",
            "spool",
            "events cannot be stored under /var/lib/hwd-agent: cannot write: No space left on device. Free space on "
            "its file system",
        ),
        (
            birth(spool_lost=5),
            "yellow",
            "spool",
            "5 events dropped, as it was full: 0.0 of 16.0 MB, 0 events waiting at its birth. Let the daemon run, "
            "or give it more room (spool.limit_bytes)",
        ),
        (
            birth(settings=[HeldSetting(run="k3v9", port="eth0", setting="mtu", value=4200, before=1500)]),
            "yellow",
            "settings",
            "1 setting of k3v9 not restored yet",
        ),
        (
            birth(version="0.1.1"),
            "yellow",
            "version",
            "0.1.1, and this is the older 0.1.0: upgrade hwd on this machine",
        ),
        (birth(version="0.0.9"), "yellow", "version", "0.0.9, and this is 0.1.0: hwd agent upgrade h0"),
        (
            birth(version="0.3.0"),
            "red",
            "version",
            "agent 0.3.0 and daemon 0.1.0 are more than one minor version apart. Upgrade the daemon",
        ),
    ],
)
def test_what_an_agent_lacks_is_said(sick: Birth, light: str, subject: str, words: str) -> None:
    assert bad(examined(sick)) == [(light, subject, words)]


@pytest.mark.parametrize("source", ["counters", "sysfs"])
def test_what_nobody_asked_for_is_not_missed(source: str) -> None:
    assert bad(examined(port(sources={source: SourceNote(sees=[], origin="measured", why_not="not asked")}))) == []


@pytest.mark.parametrize(
    ("changes", "light", "words"),
    [
        (
            {"ActiveState": "inactive", "Result": "success"},
            "red",
            "it was stopped. Start it: systemctl start hwd-agent",
        ),
        ({"ActiveState": "failed", "Result": "watchdog"}, "red", "its event loop hung, and the watchdog ended it"),
        ({"ActiveState": "activating", "Result": "exit-code", "ExecMainStatus": "2"}, "red", "exit status 2"),
        ({"LoadState": "not-found"}, "red", "there is no hwd-agent.service. Install it: hwd agent deploy h0"),
        ({"UnitFileState": "disabled"}, "red", "it does not start when the host boots"),
        ({"NRestarts": "3"}, "yellow", "it ended and was started again, 3 times since"),
        ({"ActiveState": "activating", "SubState": "start", "Result": "success"}, "red", "it is on its way; its last"),
        ({"NeedDaemonReload": "yes"}, "yellow", "its file was changed and not read again"),
    ],
)
def test_a_unit_that_is_not_well_says_why_with_the_agents_last_words(
    changes: dict[str, str], light: str, words: str
) -> None:
    active = "ActiveState" not in changes
    log = {"log": ["the new life"], "ended": ["the end"]} if active else {"log": ["the end"], "ended": []}
    ((found, subject, text),) = bad(of_unit("h0", {"service": ACTIVE | changes, "systemd": True, **log}))
    assert (found, subject) == (light, "unit")
    assert words in text
    assert "the end" in text or "NRestarts" not in changes
    assert "the new life" not in text


@pytest.mark.parametrize(
    ("links", "light", "words"),
    [
        ({"ens1f0": "down"}, "green", "ens1f0, carrier down"),
        ({"ens1f0": "up"}, "green", "ens1f0, carrier up"),
        (
            {"ens1f0": "off"},
            "yellow",
            "ens1f0 is set down on the host, so it never has a carrier. Set it up: ip link set",
        ),
        ({"lo": "up"}, "yellow", "ens1f0 has just disappeared from the host"),
        (None, "green", "ens1f0, carrier up at its birth"),
    ],
)
def test_a_port_has_its_present_carrier_and_not_that_of_the_birth_message(
    links: dict[str, str] | None, light: str, words: str
) -> None:
    found = of_birth(HOST, BIRTH, ours="0.1.0", daemon=None, links=links)
    ((is_lit, text),) = [(one.light.value, one.text) for one in found if one.subject == "port eth0"]
    assert (is_lit, text.startswith(words)) == (light, True), text


def test_a_disk_that_an_upgrade_does_not_fit_on_is_said_before_it_is_full() -> None:
    facts = {"near": "/opt/hwd-agent", "free_bytes": 100_000_000}
    assert of_disk(facts, needed_bytes=100_000_000) == []
    assert bad(of_disk(facts | {"free_bytes": 7_500_000}, needed_bytes=100_000_000)) == [
        (
            "yellow",
            "disk",
            "/opt/hwd-agent has 7 MB free, and an upgrade needs 100 MB. Free some: on a full disk events are in memory "
            "only",
        )
    ]


@pytest.mark.parametrize(
    ("facts", "light", "words"),
    [
        ({"current": None}, "red", "no agent is installed, or not to its end. Install it: hwd agent deploy h0"),
        ({"environments": {"a": None}}, "red", "no agent is installed, or not to its end"),
        ({"current_runs": False}, "red", "the environment a does not run with Python 3.13.1 (it was made with 3.11.2)"),
        ({"before": ["/etc/hwd/agent.yaml"]}, "yellow", "a roll-out was interrupted, which saved /etc/hwd/agent.yaml"),
    ],
)
def test_an_install_that_is_not_whole_is_said(facts: dict[str, Any], light: str, words: str) -> None:
    whole = {
        "current": "a",
        "environments": {"a": {"python": "3.11.2"}},
        "current_runs": True,
        "before": [],
        "python": "3.13.1",
    }
    assert bad(of_install("h0", whole)) == []
    ((found, subject, text),) = bad(of_install("h0", whole | facts))
    assert (found, subject) == (light, "install")
    assert text.startswith(words)
