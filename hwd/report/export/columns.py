"""The columns of the CSV and Parquet table: for each reconfiguration, a row for each switch that was commanded and one
for each stage of each link.
"""

from dataclasses import dataclass

Value = str | int | float | bool | None
"""A cell; None where the value is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """`type` is that of its values: str, bool, int (64 bits) or float. An `optional` one may be empty."""

    name: str
    type: type
    means: str
    optional: bool = False


def _instant(which: str, words: str) -> tuple[Column, ...]:
    return (
        Column(name=f"{which}_instant", type=str, means=f"the instant {words} the stage {which}s"),
        Column(name=f"{which}_knowledge", type=str, means="seen, unknown or never-left"),
        Column(
            name=f"{which}_earliest_ns",
            type=int,
            optional=True,
            means="not before this, on the daemon's monotonic clock",
        ),
        Column(name=f"{which}_best_ns", type=int, optional=True, means="most likely then"),
        Column(name=f"{which}_latest_ns", type=int, optional=True, means="not after this"),
        Column(
            name=f"{which}_sampling_ns",
            type=int,
            optional=True,
            means="polling interval of its source; 0: the source is notified",
        ),
        Column(
            name=f"{which}_source", type=str, optional=True, means="the end or daemon that decided, and what it read"
        ),
        Column(name=f"{which}_origin", type=str, optional=True, means="measured, kernel, twin or fitted"),
        Column(name=f"{which}_why", type=str, optional=True, means="why it is not seen, or a remark"),
    )


COLUMNS: tuple[Column, ...] = (
    Column(name="run", type=str, means="id of the run"),
    Column(name="playbook", type=str, means="what was run"),
    Column(name="testbed", type=str, means="where"),
    Column(name="virtual_time", type=bool, means="true: the seconds are simulated ones"),
    Column(name="reconfiguration", type=str, means="id of the reconfiguration"),
    Column(name="topology", type=str, means="the wanted topology"),
    Column(
        name="outcome", type=str, optional=True,
        means="confirmed, rolled-back, failed or aborted; empty: its end is not recorded",
    ),
    Column(name="whole", type=bool, means="false: the run broke off in it, and a missing event means nothing"),
    Column(
        name="commanded_wall_ns", type=int, optional=True,
        means="unix time of the first command of the link or switch, by the daemon's wall clock",
    ),
    Column(name="subject", type=str, means="the subject of the row: switch, or link"),
    Column(
        name="link", type=str, optional=True,
        means="both ends, `h0.eth0<->h1.eth0`; empty in rows of a switch, as the ends are",
    ),
    Column(name="end_a", type=str, optional=True, means="its first end"),
    Column(name="end_b", type=str, optional=True, means="its second end"),
    Column(name="switches", type=str, means="the switch; of a link all on its path, separated by spaces"),
    Column(name="kept", type=bool, means="true: none of the link's crossconnects moved; false in rows of a switch"),
    Column(name="dwell_s", type=float, optional=True, means="time since its last reconfiguration; empty: unknown"),
    Column(name="stage", type=str, means="the stage; see docs/explanations/timeline.md. Of a switch: control"),
    Column(name="knowledge", type=str, means="seen, unknown or never-left"),
    Column(name="seconds", type=float, optional=True, means="its most likely duration"),
    Column(name="error_s", type=float, optional=True, means="sum of the bounds of its two instants"),
    Column(name="least_s", type=float, optional=True, means="not shorter than this, by those bounds"),
    Column(name="most_s", type=float, optional=True, means="not longer than this"),
    Column(name="origin", type=str, optional=True, means="the weakest origin of the instants that determine it"),
    Column(name="why", type=str, optional=True, means="what is missing, or a remark"),
    *_instant("start", "at which"),
    *_instant("end", "at which"),
    Column(name="pairs", type=int, optional=True, means="crossconnects that the switch made; empty in rows of links"),
    Column(name="removed", type=int, optional=True, means="crossconnects that it removed; likewise"),
    Column(
        name="commands", type=int, optional=True,
        means="number of commands for that, all within its control time; likewise",
    ),
    Column(name="sweep", type=str, optional=True, means="sweep variables of the playbook with their values, as JSON"),
    Column(
        name="settings", type=str, optional=True,
        means="settings of the link's NIC ports that runs had made, by port, as JSON; empty: none",
    ),
)  # fmt: skip
