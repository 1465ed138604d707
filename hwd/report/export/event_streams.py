"""The event streams of a run in Bluesky's event model: which fields an event has, and what each means."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hwd.model.instant import Knowledge, Origin
from hwd.report.export.rows import COLUMNS, Row
from hwd.timeline import StageName

PRIMARY = "primary"
"""What readers of the event model show where they are not asked for another stream."""
_BY_NAME = {column.name: column for column in COLUMNS}
_PLACE = {column.name: place for place, column in enumerate(COLUMNS)}
_NUMPY = {float: "<f8", int: "<i8", bool: "|b1"}
_JSON = {float: "number", int: "integer", bool: "boolean", str: "string"}
_CHOICES: Mapping[str, tuple[str, ...]] = {"knowledge": tuple(Knowledge), "origin": ("", *Origin)}
_OF_RECONFIGURATION = ("reconfiguration", "topology", "outcome", "whole")
_OF_STAGE = ("knowledge", "seconds", "error_s", "least_s", "most_s", "origin", "why")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One field of the events of a stream: a data key. `type`: str, bool, int or float; only a float may be unknown."""

    name: str
    type: type
    means: str
    source: str
    units: str | None = None
    choices: tuple[str, ...] = ()

    def to_data(self) -> dict[str, Any]:
        data: dict[str, Any] = {"source": f"hwd:{self.source}", "dtype": _JSON[self.type], "shape": []}
        if self.type in _NUMPY:
            data["dtype_numpy"] = _NUMPY[self.type]
        if self.units is not None:
            data["units"] = self.units
        if self.choices:
            data["choices"] = [*self.choices]
        return {**data, "description": self.means}

    def value(self, known: object) -> object:
        """The value in an event. An unknown text is empty; None is an unknown number, in JSON `null`."""
        return "" if known is None and self.type is str else known


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A stream of events in an export; `shown`: the fields that plots and tables show first."""

    name: str
    means: str
    keys: tuple[Key, ...]
    shown: tuple[str, ...]


def _of_column(name: str, source: str, *, as_name: str = "") -> Key:
    """The field for a column of the CSV table; `as_name`: where it has another name."""
    column = _BY_NAME[name]
    units = "s" if column.type is float else None
    return Key(
        name=as_name or name,
        type=column.type,
        means=column.means,
        source=f"{source}/{name}",
        units=units,
        choices=_CHOICES.get(name, ()),
    )


def _in_stage(stage: StageName, column: str) -> str:
    """`seconds` of the stage firmware is `firmware_s`."""
    return f"{stage}_s" if column == "seconds" else f"{stage}_{column}"


def _stage_keys(stage: StageName, source: str) -> tuple[Key, ...]:
    return tuple(_of_column(name, f"{source}/{stage}", as_name=_in_stage(stage, name)) for name in _OF_STAGE)


def _commanded(source: str) -> Key:
    means = _BY_NAME["commanded_wall_ns"].means
    return Key(name="commanded_s", type=float, means=means, source=f"{source}/commanded", units="s")


LINKS = Stream(
    name=PRIMARY,
    means="an event for each link of each reconfiguration, with all its stages; kept links too",
    keys=(
        *(_of_column(name, "timeline") for name in _OF_RECONFIGURATION),
        _commanded("timeline/links"),
        *(
            _of_column(name, "timeline/links")
            for name in ("link", "end_a", "end_b", "switches", "kept", "dwell_s", "sweep", "settings")
        ),
        *(key for stage in StageName for key in _stage_keys(stage, "timeline/links")),
    ),
    shown=tuple(_in_stage(stage, "seconds") for stage in StageName),
)

SWITCH_COMMANDS = Stream(
    name="switch_commands",
    means="an event for each switch that was commanded in a reconfiguration",
    keys=(
        *(_of_column(name, "timeline") for name in _OF_RECONFIGURATION),
        _commanded("timeline/commands"),
        _of_column("switches", "timeline/commands", as_name="switch"),
        *_stage_keys(StageName.CONTROL, "timeline/commands"),
        *(_of_column(name, "timeline/commands") for name in ("pairs", "removed", "commands", "sweep")),
    ),
    shown=("control_s",),
)

POWER = Stream(
    name="power",
    means="an event for each fibre end of a switch whose optical power was read",
    keys=(
        Key(name="switch", type=str, means="the switch", source="switch.power/switch"),
        Key(name="port", type=str, means="its fibre end, `3B`", source="switch.power/power_dbm"),
        Key(name="lit", type=bool, means="false: dark, and power_dbm is null", source="switch.power/power_dbm"),
        Key(
            name="power_dbm", type=float, means="average optical power of the whole fibre",
            source="switch.power/power_dbm", units="dBm",
        ),
    ),
    shown=("power_dbm",),
)  # fmt: skip

STEPS = Stream(
    name="steps",
    means="an event for each step of the playbook that started, was done, or failed",
    keys=(
        Key(name="step", type=int, means="its number, from 1", source="run.step/step"),
        Key(name="branch", type=str, means="its branch of parallel steps; empty: no branch", source="run.step/branch"),
        Key(name="what", type=str, means="what it does", source="run.step/what"),
        Key(name="state", type=str, means="started, done or failed", source="run.step/state"),
        Key(name="done", type=int, means="steps of the run that are done", source="run.step/done"),
        Key(name="total", type=int, means="steps that the run has", source="run.step/total"),
        Key(
            name="expected_s", type=float, means="how long the rest of the run is expected to take",
            source="run.step/expected_s", units="s",
        ),
        Key(name="sweep", type=str, means=_BY_NAME["sweep"].means, source="run.step/sweep"),
    ),
    shown=("done",),
)  # fmt: skip

STREAMS = (LINKS, SWITCH_COMMANDS, POWER, STEPS)


def of_link(rows: Iterable[Row]) -> dict[str, object]:
    """The fields of an event of LINKS, from the rows of one link."""
    data: dict[str, object] = {}
    for row in rows:
        data |= _of_row(row, LINKS)
        stage = StageName(str(row[_PLACE["stage"]]))
        data |= {_in_stage(stage, name): row[_PLACE[name]] for name in _OF_STAGE}
    return data


def of_switch(row: Row) -> dict[str, object]:
    """The fields of an event of SWITCH_COMMANDS."""
    of_control = {_in_stage(StageName.CONTROL, name): row[_PLACE[name]] for name in _OF_STAGE}
    return {**_of_row(row, SWITCH_COMMANDS), **of_control, "switch": row[_PLACE["switches"]]}


def ends_ns(row: Row) -> tuple[str, int | None]:
    """The prefix of the fields of a row's stage, and when the stage ended on the daemon's monotonic clock."""
    ended_ns = row[_PLACE["end_best_ns"]]
    return f"{row[_PLACE['stage']]}_", ended_ns if isinstance(ended_ns, int) else None


def _of_row(row: Row, stream: Stream) -> dict[str, object]:
    """The fields that have the name of their column, and when it was commanded."""
    wall_ns = row[_PLACE["commanded_wall_ns"]]
    found: dict[str, object] = {key.name: row[_PLACE[key.name]] for key in stream.keys if key.name in _PLACE}
    return {**found, "commanded_s": wall_ns / 1e9 if isinstance(wall_ns, int) else None}
