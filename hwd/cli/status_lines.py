"""Lines and tables of `hwd status`: leases and prepared sets, as their own commands list them, alerts, the last changes
of switches, the disk.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hwd.cli.output import Output, StyledText, coloured, few, seconds
from hwd.model.daemon import DISK_EACH_S
from hwd.model.local_time import date_and_time, local_time
from hwd.model.plural import plural

if TYPE_CHECKING:
    from hwd.model.lease import HeldLease
    from hwd.model.prepared_set import PreparedSetStatus
    from hwd.model.status import Alert, DiskSpace, StorageStatus
    from hwd.model.switch import SwitchStatus

SHOWN_ALERTS = 12
"""The worst ones; all of them are in the JSON."""
SUMMARY = 240
"""Characters of one alert: three lines of a terminal with 100 columns."""
REPEATED = 40
"""A reason that is shorter is said again."""
SHOWN = 6
"""Names in one line: of switches, crossconnects or ports; the JSON has all."""


def since(wall_ns: int | None, now_wall_ns: int | None) -> str:
    """The cell of a table; empty where nobody saw it begin."""
    return "" if wall_ns is None else local_time(wall_ns, now_wall_ns=now_wall_ns)


def alert_lines(alerts: "Sequence[Alert]", now_wall_ns: int | None) -> list[tuple[str | StyledText, ...]]:
    """`alert SwitchDown (critical) ocs1: has no session: refused; since 12:03:05`.

    A long text is cut, and one that an alert above has too is replaced by the name of its subject.
    """
    lines: list[tuple[str | StyledText, ...]] = []
    reasons: dict[str, str] = {}
    for one in alerts[:SHOWN_ALERTS]:
        summary = one.summary
        for reason, subject in reasons.items():
            summary = summary.replace(reason, f"see {subject}")
        reason = one.summary.partition(": ")[2]
        if len(reason) >= REPEATED:
            reasons.setdefault(reason, one.subject)
        if len(summary) > SUMMARY:
            summary = f"{summary[:SUMMARY].rsplit(' ', 1)[0]} ... (whole: hwd status --json)"
        lines.append(
            (f"alert {one.name} (", coloured(one.severity), f") {one.subject}: {summary}; {_when(one, now_wall_ns)}")
        )
    if (more := len(alerts) - SHOWN_ALERTS) > 0:
        lines.append((f"and {plural(more, 'alert')} more: hwd status --json",))
    return lines


def _when(alert: "Alert", now_wall_ns: int | None) -> str:
    """`since 12:03:05` of what lasts, `at 12:03:05` of an event, `12:03:05 to 12:05:00` of several."""
    first = since(alert.since_wall_ns, now_wall_ns)
    if alert.last_wall_ns is None:
        return f"since {first}"
    last = since(alert.last_wall_ns, now_wall_ns)
    return f"at {first}" if last == first else f"{first} to {last}"


def storage_lines(journal: "StorageStatus", records: "StorageStatus") -> list[tuple[str | StyledText, ...]]:
    """What of journal and records cannot be written now."""
    lines: list[tuple[str | StyledText, ...]] = []
    if not journal.writable:
        lines.append((coloured("failed"), f": {journal.why}"))
    if not records.writable:
        lines.append(("records ", coloured("failed"), f": {records.why}"))
    return lines


def change_lines(switches: "Sequence[SwitchStatus]", now_wall_ns: int | None) -> list[str]:
    """The last change of each switch. Those that one reconfiguration changed are in one line, newest first.

    A restart is left out as long as something is missing: a line of its own names that, with what to do.

    `ocs1, ocs2: changed at 12:03:05: reconfiguration k3v9 (pairs rail=0), confirmed, apply without a lease`.
    """
    by: dict[str, list[SwitchStatus]] = {}
    for one in switches:
        is_named = one.restart is not None and one.restart.missing
        if one.last_change is not None and not (one.last_change.origin == "restart" and is_named):
            by.setdefault(one.last_change.reconfiguration or f"{one.switch}:", []).append(one)
    lines: list[tuple[int, str]] = []
    for changed in by.values():
        last = max((one.last_change for one in changed if one.last_change is not None), key=lambda one: one.wall_ns)
        names = few([one.switch for one in changed], SHOWN)
        at = since(last.wall_ns, now_wall_ns)
        found = "found" if last.origin in ("other", "restart") else "changed"
        lines.append((-last.wall_ns, f"{names}: {found} at {at}: {last}"))
    return [line for _, line in sorted(lines)]


def disk_line(disk: "DiskSpace | None", now_wall_ns: int | None) -> tuple[str | StyledText, ...]:
    """How much is free; loud only where it is little, or unknown. Empty where no disk was read."""
    if disk is None:
        return ()
    loud: tuple[str | StyledText, ...] = ()
    if disk.free_bytes is None:
        loud = (coloured("unknown"), ": ")
    elif disk.is_little:
        loud = (coloured("little"), ": ")
    old = ""
    if now_wall_ns is not None and (age_s := (now_wall_ns - disk.read_wall_ns) / 1e9) > 2 * DISK_EACH_S:
        old = f", read {seconds(age_s)} ago"
    return "disk ", *loud, f"{disk}{old}"


def orphan_line(orphans: "Sequence[str]") -> str:
    """Crossconnects that belong to no fibre of the testbed file, as they are left when a reload takes a fibre out."""
    named = few(orphans, SHOWN)
    return f"no fibre of the testbed file leads to an end of {named}: whether light is in them is not known here"


def show_leases(output: Output, leases: "Sequence[HeldLease]") -> None:
    if not leases:
        output.say("no leases")
        return
    rows = [(lease.id, lease.holder, _left(lease), few(lease.ports, SHOWN)) for lease in leases]
    output.table(("lease", "holder", "left", "ports"), rows)
    for lease in leases:
        if lease.kind == "waiting":
            output.say(f"  {waits_line(lease)}")
        elif lease.waits_for:
            output.say(f"  {delay_line(lease)}")


def delay_line(lease: "HeldLease") -> str:
    """Why a reserved lease has not begun though its time has come."""
    why = "; ".join(lease.waits_for or ())
    begun = date_and_time(lease.at_wall_ns or 0)
    return f"lease {lease.id} should have begun {begun}, and begins once its ports are free: {why}"


def waits_line(lease: "HeldLease") -> str:
    """Where a client stands in the queue, and why it is not granted yet."""
    return f"lease {lease.id} waits, place {lease.place}: {'; '.join(lease.waits_for or ()) or 'its turn comes'}"


def span(lease: "HeldLease") -> str:
    """When a reserved lease begins, and for how long."""
    return f"from {date_and_time(lease.at_wall_ns or 0, offset=True)} for {seconds(lease.for_s or 0.0)}"


def _left(lease: "HeldLease") -> str:
    match lease.kind:
        case "waiting":
            return f"waits, place {lease.place}"
        case "reserved":
            return span(lease)
        case "delegated":
            return f"{lease.state}, epoch {lease.epoch}"
        case _:
            return seconds(lease.left_s)


def show_sets(output: Output, found: "Sequence[PreparedSetStatus]") -> None:
    """One line for each set, and what keeps one from being switched."""
    if not found:
        output.say("no prepared sets")
        return
    rows = [
        (
            one.id,
            one.at or "no target",
            ", ".join(target.id for target in one.targets),
            one.rule,
            one.lease,
            "with its lease" if one.expires_in_s is None else seconds(one.expires_in_s),
            plural(len(one.ports), "port"),
        )
        for one in found
    ]
    output.table(("set", "at", "targets", "after a crash", "lease", "ends", "holds"), rows)
    for one in found:
        if one.why:
            output.say(f"  set {one.id}: {one.why}")
