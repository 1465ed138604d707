"""Shapes of the parts of a playbook. Each step is validated separately, so that one bad part hides no other."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from hwd.config.testbed.testbed_schema import NAME, Entry, OneOrMore, Text
from hwd.model.action import Fec
from hwd.model.bodies import PlanBody
from hwd.model.interlock import REASON_LENGTH_MAX, InterlockName
from hwd_agents.wire.setting import METRIC_MOST, MTU_LEAST, MTU_MOST
from hwd_drivers.switching.moves import ApplyMode

REPEATS_MAX = 100_000
LEASE_MAX_S = 7 * 24 * 3600.0
RUN_MAX_S = 7 * 24 * 3600.0
"""As long as a lease can last."""
WAIT_MAX_S = 24 * 3600.0
"""The slowest switch, a robotic patch panel, needs minutes."""
BRANCHES_MAX = 16
SWEPT_MAX = 1000
"""Values of one sweep variable."""
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]{0,62}$"
"""A parameter, or a variable of a sweep."""

Seconds = Annotated[float, Field(strict=True, gt=0, le=WAIT_MAX_S, allow_inf_nan=False)]
Number = Annotated[float, Field(strict=True, ge=-1e12, le=1e12, allow_inf_nan=False)]
WholeOrNumber = Annotated[int, Field(strict=True, ge=-(10**12), le=10**12)] | Number
Plain = str | bool | int | float
Words = Annotated[
    str,
    BeforeValidator(
        lambda value: ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value),
        json_schema_input_type=str | int | list[str | int],
    ),
    Field(min_length=1, max_length=10_000),
]
"""A list, or its text with commas."""


class Cut(StrEnum):
    """A property by which the figures of a report can be grouped."""

    TOPOLOGY = "topology"
    """What was applied."""
    STAGE = "stage"
    """The time between two instants."""
    LINK = "link"
    """The two NIC ports."""
    SWEEP = "sweep"
    """The values of the run's sweep variables."""
    RUN = "run"
    """The run."""
    TESTBED = "testbed"
    """The testbed that it ran on."""


class LeaseEntry(Entry):
    ports: OneOrMore
    for_s: Annotated[float, Field(strict=True, gt=0, le=LEASE_MAX_S, allow_inf_nan=False)]


class ApplyEntry(Entry):
    """Other keys are arguments of the topology: hosts, rail, groups. `override`: interlocks that shall not refuse it,
    each with the reason. `steps`: in the order in which the fewest links are dark at once, one step after the other.
    `drain_within_s`: how long it waits for the end of transfers on ports that it moves.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, Words]

    topology: Text | None = None
    links: Words | None = None
    pairs: Words | None = None
    mode: ApplyMode = ApplyMode.UPDATE
    ready_within_s: Seconds | None = None
    steps: Annotated[bool, Field(strict=True)] = False
    drain_within_s: Seconds | None = None
    override: dict[InterlockName, Annotated[str, Field(min_length=1, max_length=REASON_LENGTH_MAX)]] = Field(
        default_factory=dict
    )

    def body(self, what: str) -> PlanBody:
        """What the entry asks for. Without steps the step after it waits until it is ready."""
        return PlanBody(
            what=what,
            mode=self.mode,
            steps=self.steps,
            ready_within_s=self.ready_within_s if self.steps else None,
            overrides=self.override,
            drain_within_s=self.drain_within_s,
        )


class ReadyEntry(Entry):
    """Wait until the last apply is ready."""

    what: Literal["ready"] = Field(alias="for")
    within_s: Seconds


class JobStepEntry(Entry):
    """A job of the testbed file by its name. `arguments`: added to its command, where its entry takes some."""

    name: Text
    arguments: tuple[Plain, ...] = ()


class DwellEntry(Entry):
    """Wait for a time, unconditionally."""

    for_s: Annotated[float, Field(strict=True, ge=0, le=WAIT_MAX_S, allow_inf_nan=False)]


class RepeatEntry(Entry):
    times: Annotated[int, Field(strict=True, ge=1, le=REPEATS_MAX)]


class RangeEntry(Entry):
    """The values from one to another, both included where `step` meets the last one."""

    first: WholeOrNumber = Field(alias="from")
    last: WholeOrNumber = Field(alias="to")
    step: WholeOrNumber = 1


class IncludeEntry(Entry):
    """The steps of another playbook file; `with` are its parameters."""

    file: Text
    given: dict[str, Plain | list[Plain]] = Field(alias="with", default_factory=dict)


class NeighbourEntry(Entry):
    ip: Text
    mac: Text


class RouteEntry(Entry):
    to: Text
    via: Text | None = None
    metric: Annotated[int, Field(ge=0, le=METRIC_MOST)] | None = None


class SettingsEntry(Entry):
    """The settings of a NIC port, for editors; `hwd.model.action` reads them."""

    mtu: Annotated[int, Field(ge=MTU_LEAST, le=MTU_MOST)] | None = None
    autoneg: bool | Literal["on", "off"] | None = None
    fec: Fec | None = None
    address: Text | list[Text] | None = None
    neighbour: NeighbourEntry | list[NeighbourEntry] | None = None
    route: RouteEntry | list[RouteEntry] | None = None


class HostEntry(Entry):
    ports: OneOrMore
    settings: SettingsEntry = Field(alias="set")


class ReportEntry(Entry):
    by: tuple[Cut, ...] = (Cut.TOPOLOGY, Cut.SWEEP, Cut.STAGE)
    compare_with: Text | None = None


class PlaybookFile(Entry):
    """The top of the file; steps are read one by one. `files`: the texts of included files by name, where it was sent
    to a daemon.
    """

    playbook: Annotated[str, Field(pattern=NAME)]
    shows: str = ""
    parameters: dict[str, Any] = Field(default_factory=dict)
    within_s: Annotated[float, Field(strict=True, gt=0, le=RUN_MAX_S, allow_inf_nan=False)] = RUN_MAX_S
    steps: list[Any] = Field(min_length=1)
    report: ReportEntry = ReportEntry()
    files: dict[str, str] = Field(default_factory=dict)


# One model a step, for editors: the reader takes the kinds of steps and the shapes of their values from here.


class LeaseItem(Entry):
    lease: LeaseEntry


class ApplyItem(Entry):
    apply: ApplyEntry


class WaitItem(Entry):
    wait: ReadyEntry | DwellEntry


class RepeatItem(Entry):
    repeat: RepeatEntry
    steps: "list[StepItem]" = Field(min_length=1)


class SweepItem(Entry):
    sweep: dict[Annotated[str, Field(pattern=VARIABLE)], list[Plain] | RangeEntry] = Field(min_length=1)
    steps: "list[StepItem]" = Field(min_length=1)


class ParallelItem(Entry):
    parallel: "dict[Annotated[str, Field(pattern=NAME)], Annotated[list[StepItem], Field(min_length=1)]]" = Field(
        min_length=2, max_length=BRANCHES_MAX
    )


class NoteItem(Entry):
    note: Annotated[str, Field(min_length=1, max_length=2000)]


class HostItem(Entry):
    host: HostEntry


class FaultItem(Entry):
    fault: dict[str, Any]


class JobItem(Entry):
    job: JobStepEntry


class AssertItem(Entry):
    that: Text = Field(alias="assert")


class IncludeItem(Entry):
    include: IncludeEntry


StepItem = (
    LeaseItem
    | ApplyItem
    | WaitItem
    | RepeatItem
    | SweepItem
    | ParallelItem
    | NoteItem
    | HostItem
    | FaultItem
    | JobItem
    | AssertItem
    | IncludeItem
)
