"""Shapes of the parts of a playbook."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from hwd.config.schema import NAME, Entry, OneOrMore, Text
from hwd.model.plan import ApplyMode

REPEATS_MAX = 100_000
LEASE_MAX_S = 7 * 24 * 3600.0
WAIT_MAX_S = 24 * 3600.0
"""The slowest switch, a robotic patch panel, needs minutes."""

Seconds = Annotated[float, Field(strict=True, gt=0, le=WAIT_MAX_S, allow_inf_nan=False)]
Words = Annotated[
    str,
    BeforeValidator(lambda value: ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)),
    Field(min_length=1, max_length=10_000),
]
"""A list, or its text with commas."""


class Cut(StrEnum):
    """What the figures of a report can be grouped by."""

    TOPOLOGY = "topology"
    """What was applied."""
    STAGE = "stage"
    """The time between two instants."""
    LINK = "link"
    """The two NIC ports."""
    SWITCH = "switch"
    """The switch that moved."""


class LeaseEntry(Entry):
    ports: OneOrMore
    for_s: Annotated[float, Field(strict=True, gt=0, le=LEASE_MAX_S, allow_inf_nan=False)]


class ApplyEntry(Entry):
    """Keys besides these are arguments of the topology: hosts, rail, groups."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, Words]

    topology: Text | None = None
    pairs: Words | None = None
    mode: ApplyMode = ApplyMode.UPDATE
    ready_within_s: Seconds | None = None


class WaitEntry(Entry):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    what: Literal["ready"] = Field(alias="for")
    within_s: Seconds


class RepeatEntry(Entry):
    times: Annotated[int, Field(strict=True, ge=1, le=REPEATS_MAX)]


class ReportEntry(Entry):
    by: tuple[Cut, ...] = (Cut.TOPOLOGY, Cut.STAGE)
    compare_with: Text | None = None


class PlaybookFile(Entry):
    """The top of the file; steps are read one by one."""

    playbook: Annotated[str, Field(pattern=NAME)]
    shows: str = ""
    parameters: dict[str, Any] = Field(default_factory=dict)
    steps: list[Any] = Field(min_length=1)
    report: ReportEntry = ReportEntry()
