"""Lines of `hwd status` on alerts, on the last changes of switches and on the disk."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hwd.cli.output import Styled, coloured, seconds
from hwd.model.documents.daemon import DISK_EACH_S
from hwd.model.local_time import local_time
from hwd.model.plural import plural

if TYPE_CHECKING:
    from hwd.model.answers import Alert, DiskSpace, SwitchStatus

SHOWN_ALERTS = 12
"""The worst ones; all of them are in the JSON."""
SHOWN_SWITCHES = 6
"""Names in one line; crossconnects, too."""


def since(wall_ns: int | None, now_wall_ns: int | None) -> str:
    """The cell of a table; empty where nobody saw it begin."""
    return "" if wall_ns is None else local_time(wall_ns, now_wall_ns=now_wall_ns)


def alert_lines(alerts: "Sequence[Alert]", now_wall_ns: int | None) -> list[tuple[str | Styled, ...]]:
    """`alert SwitchDown (critical) ocs1: has no session: refused; since 12:03:05`."""
    lines: list[tuple[str | Styled, ...]] = [
        (
            f"alert {one.name} (",
            coloured(one.severity),
            f") {one.subject}: {one.summary}; since {since(one.since_wall_ns, now_wall_ns)}",
        )
        for one in alerts[:SHOWN_ALERTS]
    ]
    if (more := len(alerts) - SHOWN_ALERTS) > 0:
        lines.append((f"and {plural(more, 'alert')} more: hwd status --json",))
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
        more = f" and {len(changed) - SHOWN_SWITCHES} more" if len(changed) > SHOWN_SWITCHES else ""
        names = ", ".join(one.switch for one in changed[:SHOWN_SWITCHES]) + more
        at = since(last.wall_ns, now_wall_ns)
        found = "found" if last.origin in ("other", "restart") else "changed"
        lines.append((-last.wall_ns, f"{names}: {found} at {at}: {last}"))
    return [line for _, line in sorted(lines)]


def disk_line(disk: "DiskSpace | None", now_wall_ns: int | None) -> tuple[str | Styled, ...]:
    """How much is free; loud only where it is little, or unknown. Empty where no disk was read."""
    if disk is None:
        return ()
    loud: tuple[str | Styled, ...] = ()
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
    more = f" and {len(orphans) - SHOWN_SWITCHES} more" if len(orphans) > SHOWN_SWITCHES else ""
    named = f"{', '.join(orphans[:SHOWN_SWITCHES])}{more}"
    return f"no fibre of the testbed file leads to an end of {named}: whether light is in them is not known here"
