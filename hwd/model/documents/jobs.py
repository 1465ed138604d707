"""What the daemon tells of jobs."""

from typing import ClassVar

from msgspec import UNSET, UnsetType

from hwd.model.nic_port import NicPortId
from hwd_drivers.core.documents import Fact


class JobFact(Fact, frozen=True, kw_only=True):
    """Of one job; `entry`: its name in the testbed file."""

    job: str
    entry: str


class JobStarted(JobFact, frozen=True, kw_only=True):
    """Its ranks are being started on `hosts`, one entry a rank. `prepared_set` is empty where each switch is
    planned.
    """

    KIND: ClassVar = "job.started"
    hosts: list[str]
    plane: str
    lease: str
    prepared_set: str
    by: str


class JobArrived(JobFact, frozen=True, kw_only=True):
    """All its ranks have come, `seconds` after its start."""

    KIND: ClassVar = "job.arrived"
    seconds: float


class JobResumed(JobFact, frozen=True, kw_only=True):
    """A daemon that was started anew goes on with it; its plane was told `events` again."""

    KIND: ClassVar = "job.resumed"
    events: int


class JobRankRefused(JobFact, frozen=True, kw_only=True):
    """What a process said as rank `rank` from `host` was refused, for `why`."""

    KIND: ClassVar = "job.rank-refused"
    rank: int
    host: str
    why: str


class JobSwitched(JobFact, frozen=True, kw_only=True):
    """Its plane brought the light to `target`, or could not, for `why`; `seconds` from its wish to the answer.

    `fallback`: why its plane gave up its own light, of a target that is the fallback.
    """

    KIND: ClassVar = "job.switched"
    target: str
    reconfiguration: str
    why: str
    seconds: float
    fallback: str | UnsetType = UNSET


class JobOverridden(JobFact, frozen=True, kw_only=True):
    """An operator acted on what the job holds, for `why`: `act` is `switch` (of its `prepared_set`, to `target`) or
    `release`. `by`: who, `verified` by a token of that name, else as they stated. `reconfiguration`: that of a switch.
    """

    KIND: ClassVar = "job.overridden"
    act: str
    prepared_set: str
    target: str | UnsetType = UNSET
    reconfiguration: str | UnsetType = UNSET
    by: str
    verified: bool
    why: str


class JobMoved(JobFact, frozen=True, kw_only=True):
    """Its light was not at `target` any more, as `what` says, and not by the job: `by` says by whom, and why as far as
    that is known. No rank is let go until it is back: `is_over`, after `seconds`, by `reconfiguration` where one was
    needed.
    """

    KIND: ClassVar = "job.moved"
    target: str
    by: str
    what: str
    is_over: bool
    seconds: float
    reconfiguration: str | UnsetType = UNSET


class JobFailure(JobFact, frozen=True, kw_only=True):
    """Its plane was told that these NIC ports (`h0.eth0`), or hosts, cannot be counted on, for `why`; or, `is_over`,
    that they can be used again.
    """

    KIND: ClassVar = "job.failure"
    ports: list[NicPortId]
    hosts: list[str]
    why: str
    is_over: bool


class JobGranted(JobFact, frozen=True, kw_only=True):
    """A rank may send, after it waited for `stall_s`. Not in the records as a document: they come by the hundred."""

    KIND: ClassVar = "job.granted"
    rank: int
    operation: str
    stall_s: float


class JobMeasured(JobFact, frozen=True, kw_only=True):
    """Its efficiency over the `operations` between hosts that ended in the last minute, every 5 s; `left_out`: those of
    which it cannot be told. `eta` = `gamma` x `delta` x `theta`; null where they cannot be told, for `why`. Not in the
    records as a document: `hwd job efficiency` reads what it is measured from.
    """

    KIND: ClassVar = "job.measured"
    operations: int
    left_out: int
    gamma: float | None
    delta: float | None
    theta: float | None
    eta: float | None
    why: str


class JobEnded(JobFact, frozen=True, kw_only=True):
    """It has ended after `seconds`: `succeeded`, `failed` or `stopped`, for `why`. It holds nothing any more."""

    KIND: ClassVar = "job.ended"
    outcome: str
    why: str
    seconds: float
