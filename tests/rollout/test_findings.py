"""What the doctor makes of facts, births and unit states: every red light in words, with the remedy."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Host, NicPort
from hwd.rollout.findings import Finding, Light, of_birth, of_disk, of_install, of_silence, of_unit
from hwd_agents.wire import Birth, HeldSetting, Inventory, PortNote, SourceNote, SpoolNote, State

from ..answers import check_golden
from ..modules import LR4
from ..texts import birth_message

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
SPOOL = SpoolNote(bytes=0, limit_bytes=16_000_000, why="")
BIRTH = birth_message(ports={"eth0": NOTE}, inventory=Inventory(spool=SPOOL))
ACTIVE = {"LoadState": "loaded", "ActiveState": "active", "UnitFileState": "enabled", "NRestarts": "0", "MainPID": "7"}


def birth(**changes: Any) -> Birth:
    return msgspec.structs.replace(BIRTH, **changes)


def port(**changes: Any) -> Birth:
    return birth(ports={"eth0": msgspec.structs.replace(NOTE, **changes)})


def examined(birth: Birth, *, ours: str = "0.1.0", daemon: str | None = None) -> Sequence[Finding]:
    return of_birth(HOST, birth, ours=ours, daemon=daemon, links={"ens1f0": "up"})


def bad(findings: Sequence[Finding]) -> list[tuple[str, str, str]]:
    return [(one.light.value, one.subject, one.text) for one in findings if one.light is not Light.GREEN]


NOT_MISSED = ("counters", "sysfs")
"""Sources that nobody asked for."""


def told_of(findings: Sequence[Finding], subject: str = "") -> str:
    """In words: those that are not green, or all of one subject."""
    told = [one for one in findings if (one.subject == subject if subject else one.light is not Light.GREEN)]
    return "".join(f"{one.light.value} {one.subject}: {one.text}\n" for one in told) or "nothing\n"


SILENT: dict[str, dict[str, Any]] = {
    "the broker has none: no agent of this host has reached it, or it was removed since": {"never": True},
    "what came cannot be read: no JSON": {"unreadable": "no JSON", "never": True},
    "the agent is down: it never said that it is up": {},
    "the agent is down: its connection was lost": {"state": State(boot="b", seq=2, state="lost")},
}


def test_a_well_agent_has_nothing_but_green_and_one_that_is_not_heard_of_has_the_last_word() -> None:
    assert bad(examined(BIRTH)) == []
    assert bad(of_unit("h0", {"service": ACTIVE, "log": [], "systemd": True})) == []
    for words, how in SILENT.items():
        heard = {"state": None, "unreadable": None, "never": False, **how}
        state = heard.pop("state")
        stopped = of_silence(state, **heard, log=[])
        assert (stopped.light, stopped.subject, stopped.text) == (Light.RED, "birth", words)
        runs = of_silence(state, **heard, log=["broker: not authorized"])
        assert runs.text == f"{words}; it runs, and the end of its log is:\nbroker: not authorized"


NO_ROOM = "cannot write: No space left on device. Free space on its file system"
SICK = [
    birth(ports={}),
    port(present=False),
    port(sources={"link": SourceNote(sees=[], origin="measured", why_not="netlink: not permitted")}),
    port(sources={"phy": SourceNote(sees=[], origin="measured", why_not="Install mstflint")}),
    birth(inventory=Inventory(spool=SpoolNote(why=NO_ROOM))),
    birth(spool_lost=5),
    birth(settings=[HeldSetting(run="k3v9", port="eth0", setting="mtu", value=4200, before=1500)]),
    birth(version="0.1.1"),
    birth(version="0.0.9"),
    birth(version="0.3.0"),
    *(port(sources={source: SourceNote(sees=[], origin="measured", why_not="not asked")}) for source in NOT_MISSED),
]
UNITS: list[dict[str, str]] = [
    {"ActiveState": "inactive", "Result": "success"},
    {"ActiveState": "failed", "Result": "watchdog"},
    {"ActiveState": "activating", "Result": "exit-code", "ExecMainStatus": "2"},
    {"LoadState": "not-found"},
    {"UnitFileState": "disabled"},
    {"NRestarts": "3"},
    {"ActiveState": "activating", "SubState": "start", "Result": "success"},
    {"NeedDaemonReload": "yes"},
]
INSTALLS: list[dict[str, Any]] = [
    {},
    {"current": None},
    {"environments": {"a": None}},
    {"current_runs": False},
    {"before": ["/etc/hwd/agent.yaml"]},
]
LINKS: list[dict[str, str] | None] = [{"ens1f0": "down"}, {"ens1f0": "up"}, {"ens1f0": "off"}, {"lo": "up"}, None]
"""What is looked at: births, units, installs, and the present carriers."""


def test_what_an_agent_lacks_is_said_with_the_remedy() -> None:
    """To take over what is said now: delete the file and run this twice."""
    told = [told_of(examined(sick)) for sick in SICK]
    for unit in UNITS:
        active = "ActiveState" not in unit
        log = {"log": ["the new life"], "ended": ["the end"]} if active else {"log": ["the end"], "ended": []}
        told.append(told_of(of_unit("h0", {"service": ACTIVE | unit, "systemd": True, **log})))
    whole = {"current": "a", "environments": {"a": {"python": "3.11.2"}}, "current_runs": True, "before": []}
    told += [told_of(of_install("h0", whole | {"python": "3.13.1"} | install)) for install in INSTALLS]
    told += [told_of(of_birth(HOST, BIRTH, ours="0.1.0", daemon=None, links=links), "port eth0") for links in LINKS]
    disk = {"near": "/opt/hwd-agent", "free_bytes": 100_000_000}
    told += [told_of(of_disk(disk | free, needed_bytes=100_000_000)) for free in ({}, {"free_bytes": 7_500_000})]
    check_golden(Path(__file__).with_name("findings.txt"), "\n".join(told))
