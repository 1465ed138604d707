"""Finding: one thing that the doctor examined, its state, and the remedy."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from hwd.bus.birth_data import selection_trouble
from hwd.bus.skew import skew
from hwd.model.plural import plural
from hwd.model.testbed import Host
from hwd.rollout.versions import is_newer
from hwd_agents.wire import Birth, PortNote, SourceNote, SpoolNote, State

NEEDED = ("link", "probe")
"""Sources without which an agent measures nothing."""


class Light(StrEnum):
    GREEN = "green"
    """As it should be."""
    YELLOW = "yellow"
    """The part works, and something is missing or wrong."""
    RED = "red"
    """The part does not work."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding: `subject` is what was examined; `text` says its state, and the remedy where it is not green."""

    subject: str
    light: Light
    text: str


def green(subject: str, text: str) -> Finding:
    return Finding(subject=subject, light=Light.GREEN, text=text)


def yellow(subject: str, text: str) -> Finding:
    return Finding(subject=subject, light=Light.YELLOW, text=text)


def red(subject: str, text: str) -> Finding:
    return Finding(subject=subject, light=Light.RED, text=text)


def of_install(host: str, facts: Mapping[str, Any]) -> list[Finding]:
    """The environment, and the remains of an interrupted roll-out."""
    found = []
    current = facts["current"]
    manifest = facts["environments"].get(current) if current is not None else None
    if current is None or manifest is None:
        return [red("install", f"no agent is installed, or not to its end. Install it: hwd agent deploy {host}")]
    if not facts["current_runs"]:
        why = f"the environment {current} does not run with Python {facts['python']}"
        remedy = f"Make it again: hwd agent deploy {host}"
        found.append(red("install", f"{why} (it was made with {manifest['python']}). {remedy}"))
    else:
        found.append(green("install", f"{current}, Python {facts['python']}"))
    if facts["before"]:
        why = f"a roll-out was interrupted, which saved {', '.join(facts['before'])}"
        found.append(yellow("install", f"{why}. Finish it: hwd agent deploy {host}"))
    return found


def of_disk(facts: Mapping[str, Any], *, needed_bytes: int) -> list[Finding]:
    """The disk for installed files; the agent's events are usually on the same one."""
    if facts["free_bytes"] >= needed_bytes:
        return []
    free, needed = facts["free_bytes"] // 1_000_000, needed_bytes // 1_000_000
    why = f"{facts['near']} has {free} MB free, and an upgrade needs {needed} MB"
    return [yellow("disk", f"{why}. Free some: on a full disk events are in memory only")]


def of_unit(host: str, facts: Mapping[str, Any]) -> list[Finding]:
    """The systemd unit, with the end of the agent's log where it does not run."""
    service = facts["service"]
    if not facts["systemd"]:
        return [red("unit", "systemd does not run on this host")]
    state, log = service.get("ActiveState", "unknown"), facts["log"]
    if service.get("LoadState") != "loaded":
        return [red("unit", f"there is no hwd-agent.service. Install it: hwd agent deploy {host}")]
    restarts = int(service.get("NRestarts") or 0)
    if state == "inactive" and service.get("Result") == "success":
        return [red("unit", f"it was stopped. Start it: systemctl start hwd-agent, or hwd agent deploy {host}")]
    if state != "active":
        words = "\n".join(["its last words:", *log[-8:]]) if log else "it said nothing"
        again = f", started again {plural(restarts, 'time')}" if restarts else ""
        reason = {
            "watchdog": "its event loop hung, and the watchdog ended it",
            "oom-kill": "the host had no memory left",
            "timeout": "it did not get ready in time",
            "success": "it is on its way",
        }.get(service.get("Result", ""), f"result {service.get('Result')}, exit status {service.get('ExecMainStatus')}")
        return [red("unit", f"{state} ({service.get('SubState')}): {reason}{again}; {words}")]
    found = [green("unit", f"active, pid {service.get('MainPID')}")]
    if restarts:
        why = f"it ended and was started again, {plural(restarts, 'time')} since the roll-out"
        words = "\n".join([f"{why}; the end of its log before that:", *facts["ended"][-8:]])
        found.append(yellow("unit", words))
    if service.get("UnitFileState") != "enabled":
        remedy = f"systemctl enable hwd-agent, or hwd agent deploy {host}"
        found.append(red("unit", f"it does not start when the host boots: {remedy}"))
    if service.get("NeedDaemonReload") == "yes":
        found.append(yellow("unit", f"its file was changed and not read again: hwd agent deploy {host}"))
    return found


def of_silence(state: State | None, *, unreadable: str | None, never: bool, log: Sequence[str]) -> Finding:
    """An agent that is not connected. `log`: the end of its log, where its unit runs all the same."""
    said = {"down": "it stopped in order", "lost": "its connection was lost"}
    if unreadable:
        text = f"what came cannot be read: {unreadable}"
    elif never:
        text = "the broker has none: no agent of this host has reached it, or it was removed since"
    else:
        text = f"the agent is down: {said.get(state.state, state.state) if state else 'it never said that it is up'}"
    return red("birth", "\n".join([f"{text}; it runs, and the end of its log is:", *log[-6:]]) if log else text)


def of_birth(
    host: Host, birth: Birth, *, ours: str, daemon: str | None, links: Mapping[str, str] | None
) -> list[Finding]:
    """The agent's own report: version, ports, each source of each port, spool, settings. `links`: those of
    `hwd.rollout.onhost.facts.links` now; None where they are unknown.
    """
    found = []
    if why := skew(daemon or ours, birth.version):
        found.append(red("version", why))
    elif is_newer(birth.version, ours):
        found.append(yellow("version", f"{birth.version}, and this is the older {ours}: upgrade hwd on this machine"))
    elif birth.version != ours:
        found.append(yellow("version", f"{birth.version}, and this is {ours}: hwd agent upgrade {host.name}"))
    else:
        found.append(green("version", birth.version))
    for port in host.ports:
        name = f"port {port.id.port}"
        note = birth.ports.get(port.id.port)
        if note is None:
            found.append(red(name, f"the agent does not know it: hwd agent deploy {host.name}"))
            continue
        if not note.present:
            why = f"there is no interface {note.interface} on the host. Is the NIC there, and named so?"
            remedy = f"Correct `interface` in the testbed file, then hwd agent deploy {host.name}"
            found.append(red(name, f"{why} {remedy}"))
        else:
            found.append(_carrier(name, note, links))
        found += [
            _source(f"{name} {source}", source, said)
            for source, said in note.sources.items()
            if note.present and not _unasked(source, said, has_rdma=port.rdma is not None)
        ]
    if why := selection_trouble(birth):
        found.append(red("selections", f"jobs cannot set this host's switches: {why}"))
    found.append(_spool(birth))
    if birth.settings:
        runs = sorted({held.run for held in birth.settings})
        found.append(
            yellow("settings", f"{plural(len(birth.settings), 'setting')} of {', '.join(runs)} not restored yet")
        )
    return found


def _carrier(subject: str, note: PortNote, links: Mapping[str, str] | None) -> Finding:
    """The carrier now: a birth has the state at the agent's start."""
    if links is None:
        return green(subject, f"{note.interface}, carrier {'up' if note.carrier else 'down'} at its birth")
    match links.get(note.interface):
        case "off":
            words = (
                f"{note.interface} is set down on the host, so it never has a carrier. "
                f"Set it up: ip link set {note.interface} up"
            )
            return yellow(subject, f"{words}. Its routes and neighbours are lost too: set them again")
        case "up" | "down" as carrier:
            return green(subject, f"{note.interface}, carrier {carrier}")
        case _:
            return yellow(
                subject, f"{note.interface} has just disappeared from the host, and the agent has not reported it yet"
            )


def _unasked(source: str, note: SourceNote, *, has_rdma: bool) -> bool:
    """Whether this source was not asked for: the testbed names no RDMA device, or counters are not to be read."""
    return bool(note.why_not) and ((source == "sysfs" and not has_rdma) or source == "counters")


def _source(subject: str, source: str, note: SourceNote) -> Finding:
    if note.why_not:
        return (red if source in NEEDED else yellow)(subject, f"cannot see: {note.why_not}")
    limits = f"; not: {note.limits}" if note.limits else ""
    return green(subject, f"sees {', '.join(note.sees)} ({note.origin}){limits}")


def _spool(birth: Birth) -> Finding:
    spool = birth.inventory.spool or SpoolNote()
    waiting = birth.spool_next_seq - birth.spool_oldest_seq
    if spool.why:
        return red("spool", f"events cannot be stored under /var/lib/hwd-agent: {spool.why}")
    limit = "" if spool.limit_bytes is None else f" of {spool.limit_bytes / 1e6:.1f}"
    size = f"{(spool.bytes or 0) / 1e6:.1f}{limit} MB, {plural(waiting, 'event')} waiting at its birth"
    if birth.spool_lost:
        remedy = "Let the daemon run, or give it more room (spool.limit_bytes)"
        return yellow("spool", f"{plural(birth.spool_lost, 'event')} dropped, as it was full: {size}. {remedy}")
    return green("spool", size)
