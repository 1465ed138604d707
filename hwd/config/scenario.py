"""Scenario files: faults of twins, and their times.

    scenario: dying-mirror
    shows: what a driver makes of a mirror that loses light and then does not move any more
    faults:
      - {at_s: 10, fault: drift, ends: [3A], loss_db: 6, over_s: 60}
      - {at_s: 90, fault: stick, ends: [3A]}
      - {at_s: 120, fault: clear}
    every_s: 150

Faults are those of `hwd.model.fault`; times count from the start of the twins, and with `every_s` the scenario repeats.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from hwd.config.file_kind import is_other_kind
from hwd.config.testbed.testbed_schema import NAME, Entry, Text
from hwd.config.yaml.file_problem import Loaded, nearest
from hwd.config.yaml.tree import Node, Reading, read_tree
from hwd.config.yaml.validate import validate
from hwd.model.fault import FAULTS, Clear, Fault, SwitchFault, parse_fault
from hwd_drivers.core.errors import HwdError

DAY_S = 86_400.0

Moment = Annotated[float, Field(strict=True, ge=0, le=DAY_S, allow_inf_nan=False)]


class ScenarioFile(Entry):
    """The top of the file; faults are read one by one."""

    scenario: Annotated[str, Field(pattern=NAME)]
    shows: Text | None = None
    faults: Annotated[list[Any], Field(min_length=1)]
    every_s: Annotated[float, Field(strict=True, gt=0, le=DAY_S, allow_inf_nan=False)] | None = None


class _When(Entry):
    """When a fault is set."""

    at_s: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedFault:
    """A fault of a scenario, with the time of its injection and its `source`, `file:line`."""

    at_s: float
    fault: Fault
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A named list of faults, in the order of their times."""

    name: str
    faults: tuple[TimedFault, ...]
    every_s: float | None = None


def load_scenario(
    source: str | Path | Reading, *, switch: str | None = None, check: Callable[[Fault], None] | None = None
) -> Loaded[Scenario]:
    """Read a scenario file. `switch`: the subject of faults without one. `check` raises HwdError for a fault that
    cannot be injected.
    """
    reading = read_tree(source)
    if reading.root is None or is_other_kind(reading, "scenario"):
        return Loaded(None, reading.in_order())
    top = validate(ScenarioFile, reading.root, (), reading)
    faults: list[TimedFault] = []
    for index in range(len(top.faults if top else ())):
        timed = _timed(reading, index, switch, check)
        if timed is None:
            continue
        if top and top.every_s is not None and timed.at_s >= top.every_s:
            reading.add(
                ("faults", index, "at_s"),
                f"{timed.at_s} s is never reached: the scenario repeats every {top.every_s} s",
            )
        faults.append(timed)
    if top is None or not reading.sound:
        return Loaded(None, reading.in_order())
    ordered = tuple(sorted(faults, key=lambda timed: timed.at_s))
    return Loaded(Scenario(name=top.scenario, faults=ordered, every_s=top.every_s), reading.in_order())


def _timed(
    reading: Reading, index: int, switch: str | None, check: Callable[[Fault], None] | None
) -> TimedFault | None:
    where = ("faults", index)
    assert reading.root is not None
    node = reading.root.child(*where)
    if node is None or not isinstance(node.value, dict):
        reading.add(where, "must be a mapping, such as {at_s: 10, fault: slow, seconds: 0.5}")
        return None
    keys = node.mapping()
    when = validate(
        _When, Node(value={key: keys[key] for key in keys if key == "at_s"}, line=node.line), where, reading
    )
    fault = _fault(reading, where, node, switch)
    if when is None or fault is None:
        return None
    try:
        if check is not None:
            check(fault)
    except HwdError as error:
        reading.add((*where, "fault"), _without_prefix(error))
        return None
    return TimedFault(at_s=when.at_s, fault=fault, source=f"{reading.file}:{node.line}")


def _fault(reading: Reading, where: tuple[str | int, ...], node: Node, switch: str | None) -> Fault | None:
    data: dict[str, Any] = {key: value for key, value in node.plain().items() if key != "at_s"}
    name = data.get("fault")
    if not isinstance(name, str) or name not in FAULTS:
        reading.add((*where, "fault"), f"{name!r} is no fault; {nearest(str(name), FAULTS)}" if name else "is missing")
        return None
    kind = FAULTS[name]
    if switch is not None and (
        issubclass(kind, SwitchFault) or (kind is Clear and data.keys().isdisjoint(("switch", "port", "host")))
    ):
        data.setdefault("switch", switch)
    fields = {*kind.__struct_fields__, "fault"}
    for key in data:
        if key not in fields:
            reading.add((*where, key), f"unknown key; {nearest(key, [*fields, 'at_s'])}")
    if not fields.issuperset(data):
        return None
    try:
        return parse_fault(data)
    except HwdError as error:
        reading.add((*where, "fault"), _without_prefix(error))
        return None


def _without_prefix(error: HwdError) -> str:
    return str(error).removeprefix("fault: ")
