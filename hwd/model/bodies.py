"""Bodies of HTTP calls: what the client encodes and the daemon decodes. Unknown fields are refused, so that a misspelt
limit is not ignored.
"""

from typing import Annotated, Final, Literal, Self

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from hwd.model.interlock import InterlockName, Reason
from hwd.model.program import Signal
from hwd.model.run import TrialRun
from hwd_drivers.switching.moves import ApplyMode

TEXT_MAX = 1_000_000
"""Characters of a file that is sent; the longest sensible playbook has some thousand."""
DAY_S = 86_400.0
WHOLE_MAX: Final = (1 << 63) - 1
"""The largest whole number: more fits neither into the records nor into most programs that read them."""

Name = Annotated[str, Meta(min_length=1, max_length=200)]
FileName = Annotated[str, Meta(min_length=1, max_length=4096)]
Text = Annotated[str, Meta(max_length=TEXT_MAX)]
Epoch = Annotated[int, Meta(ge=0, le=WHOLE_MAX)]
Seconds = Annotated[float, Meta(gt=0, le=DAY_S)]


class Body(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Fields that have their default are not sent."""


class File(Body, frozen=True, kw_only=True):
    """A file of the caller; `name` appears in messages only, and no file of that name is opened."""

    name: FileName
    text: Text


class PlanBody(Body, frozen=True, kw_only=True):
    """A wanted state: `what` as on the command line, a topology `file`, the desired state of the ports in `restore` (a
    switch, `ocs1.3`, `h0.eth0`; of all where it is empty), or the state `before` a reconfiguration of the history.

    `overrides`: interlocks that shall not refuse it, each with the reason, which is recorded. `epoch`: of the lease,
    refused where another is in force. `steps`: in the order in which the fewest links are dark at once, one step after
    the other. `drain_within_s`: how long it waits for the end of the transfers on ports that it
    moves; null: they refuse it.
    """

    what: Annotated[str, Meta(max_length=100_000)] = ""
    file: File | None = None
    restore: Annotated[list[Name], Meta(max_length=10_000)] | None = None
    before: Name | None = None
    mode: ApplyMode = ApplyMode.UPDATE
    lease: str | None = None
    epoch: Epoch | None = None
    ready_within_s: Seconds | None = None
    confirm_within_s: Seconds | None = None
    steps: bool = False
    drain_within_s: Seconds | None = None
    overrides: dict[InterlockName, Reason] = field(default_factory=dict)

    @property
    def may_be_empty(self) -> bool:
        """Whether nothing to do is an answer: all may be as it shall be already."""
        return self.restore is not None or self.before is not None

    @property
    def transfers_s(self) -> float:
        """How long the apply waits for the end of transfers."""
        return self.drain_within_s or 0.0

    @property
    def waits_s(self) -> float:
        """How long the apply waits, beside the time of the switches: for transfers, and until its links are ready."""
        return self.transfers_s + (self.ready_within_s or 0.0)

    def waiting_as(self, other: "PlanBody") -> Self:
        """The body with the wait for the end of transfers that `other` says, where that says it."""
        return self if other.drain_within_s is None else replace(self, drain_within_s=other.drain_within_s)


class ReconfigurationBody(PlanBody, frozen=True, kw_only=True):
    """A request to apply: a `PlanBody`, or the hash of a plan, without any other field of it but `drain_within_s`.

    `by`: who asks, for the history; a token with a name counts instead. `id`: the reconfiguration's, by default a new
    one; who chooses it can roll back before the answer comes.
    """

    hash: Annotated[str, Meta(pattern="^[0-9a-f]{12}$")] | None = None
    id: Annotated[str, Meta(pattern="^[0-9a-z]{8}$")] | None = None
    by: Name | None = None

    @property
    def is_of_plan(self) -> bool:
        """Whether the body has no field that is the plan's to say."""
        return self == ReconfigurationBody(hash=self.hash, id=self.id, by=self.by).waiting_as(self)


class TargetBody(Body, frozen=True, kw_only=True):
    """One target of a prepared set: `what` as on the command line, or a topology `file`."""

    what: Annotated[str, Meta(max_length=100_000)] = ""
    file: File | None = None


class PrepareBody(Body, frozen=True, kw_only=True):
    """The targets of a prepared set by name, each as a plan takes it, and the lease that the set is held under.

    `after_crash`: what becomes of a switch that a crash cuts off: `finish`, `before`, or the name of a target. `for_s`:
    the set ends then, by default with its lease. `ready_within_s`: each switch waits until its links are ready.
    `epoch`: of the lease. `overrides`: as of a plan. `by`: who asks, for the history; a token with a name counts
    instead.
    """

    targets: dict[str, TargetBody]
    lease: Name
    epoch: Epoch | None = None
    after_crash: Name = "finish"
    for_s: Annotated[float, Meta(gt=0, le=7 * DAY_S)] | None = None
    mode: ApplyMode = ApplyMode.UPDATE
    ready_within_s: Seconds | None = None
    overrides: dict[InterlockName, Reason] = field(default_factory=dict)
    by: Name | None = None


OverrideOf = Literal["job"]
"""Whose right an operator overrides."""


class SwitchBody(Body, frozen=True, kw_only=True):
    """A request to switch a prepared set to `target`. `epoch`: of the set's lease, refused where another is in force.
    `override`: `{"job": WHY}` for a set of a job, which is told and recorded. `id`, `by`: as of an apply.
    """

    target: Name
    epoch: Epoch | None = None
    override: dict[OverrideOf, Reason] = field(default_factory=dict)
    id: Annotated[str, Meta(pattern="^[0-9a-z]{8}$")] | None = None
    by: Name | None = None


class RunBody(Body, frozen=True, kw_only=True):
    """A playbook by its text, with the files that it names in `files`; `file` is its name and is not opened.

    `trial`: its place in a trial, which the records keep.
    """

    text: Text
    file: FileName
    parameters: dict[str, str] = field(default_factory=dict)
    due_wall_ns: Annotated[int, Meta(description="unix time; it starts no earlier", ge=0, le=WHOLE_MAX)] | None = None
    trial: TrialRun | None = None


class ByBody(Body, frozen=True, kw_only=True):
    """Who makes the request; the state of the run names them."""

    by: Name = "a caller of the HTTP API"


class ActBody(ByBody, frozen=True, kw_only=True):
    """Who acts on what is another's, and why; both are recorded. A token with a name counts instead of `by`."""

    why: Annotated[str, Meta(max_length=1000)] = ""


class ProgramBody(Body, frozen=True, kw_only=True):
    """A program of the testbed file by its name, and the arguments that are added; `by`: who asks for it."""

    words: Annotated[
        list[Annotated[str, Meta(max_length=4096, pattern=r"\A[^\x00]*\Z")]], Meta(min_length=1, max_length=1000)
    ]
    by: Name | None = None


class JobBody(Body, frozen=True, kw_only=True):
    """A job of the testbed file by its name, and the arguments that are added to its command; `by`: who asks for it."""

    name: Name
    words: Annotated[list[Annotated[str, Meta(max_length=4096, pattern=r"\A[^\x00]*\Z")]], Meta(max_length=1000)] = (
        field(default_factory=list)
    )
    by: Name | None = None


class SignalBody(Body, frozen=True, kw_only=True):
    """Which signal, `INT`."""

    signal: Signal


class LeaseBody(Body, frozen=True, kw_only=True):
    """Who leases which ports, and for how many seconds.

    `queue`: wait for it where a port is not free, before those of a lower `priority`. `at_wall_ns`: reserve it from
    then on. `heartbeat_s`: it ends where no heartbeat comes for so long.
    """

    holder: Name
    ports: Annotated[list[str], Meta(min_length=1, max_length=10_000)]
    for_s: float
    queue: bool = False
    priority: Annotated[int, Meta(ge=-100, le=100)] = 0
    at_wall_ns: Annotated[int, Meta(description="unix time", ge=0, le=WHOLE_MAX)] | None = None
    heartbeat_s: float | None = None


class EpochBody(Body, frozen=True, kw_only=True):
    """A body with the `epoch` of a lease, refused where another is in force."""

    epoch: Epoch | None = None


class ReleaseSetBody(EpochBody, frozen=True, kw_only=True):
    """The release of a set, with the `epoch` of its lease, refused where another is in force. `override`, `by`: as of a
    switch of it.
    """

    override: dict[OverrideOf, Reason] = field(default_factory=dict)
    by: Name | None = None


class RenewBody(EpochBody, frozen=True, kw_only=True):
    """The lease expires `for_s` seconds from now."""

    for_s: float


class KickBody(ActBody, frozen=True, kw_only=True):
    """Who takes a lease from its holder, and why; the holder reads both at the next act."""


class OverrideBody(ByBody, frozen=True, kw_only=True):
    """The override of fibre ends of one switch, whatever crossconnect they are in; `why` is recorded with `by`."""

    switch: Name
    ends: Annotated[
        list[str], Meta(min_length=1, max_length=10_000, description="ports and ranges of them: `3A`, `4A..6A`")
    ]
    to: Literal["force-blocked", "normal"]
    lease: str | None = None
    epoch: Epoch | None = None
    why: Annotated[str, Meta(max_length=1000)] = ""


class FaultBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A fault of a twin, as `hwd.model.fault` has them, and the lease that the caller acts under."""

    lease: str | None = None
    epoch: Epoch | None = None


class ReloadBody(Body, frozen=True, kw_only=True):
    """A reload, or with `dry_run` a report of what it would change. `hash`: refused where the file has another by now.

    `drain_s`: how long to wait for those who hold what changes. `by`: who asks, where no token says so.
    """

    dry_run: bool = False
    hash: Name | None = None
    drain_s: Annotated[float, Meta(ge=0, le=DAY_S)] = 10.0
    by: Name | None = None
