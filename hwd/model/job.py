"""Jobs on the rack: the durable record of one, and what happened in it, in order. Values only."""

from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar

from msgspec import UNSET, Struct, UnsetType
from typing_extensions import override

from hwd.model.nic_port import NicPortId
from hwd.model.plane import (
    Action,
    CommunicationGroup,
    Event,
    Job,
    Rank,
)
from hwd.model.plane_json import NamedAction, NamedEvent
from hwd.model.program import ProgramEnd
from hwd_agents.wire import IpDatagrams, PortBytes
from hwd_drivers.core.documents import Fact


class JobState(StrEnum):
    """The state of a job. The last three are ends."""

    STARTING = "starting"
    """Its lease is taken, its targets are prepared, its ranks are started."""
    RUNNING = "running"
    """Its ranks run. A daemon that starts anew goes on with it."""
    STOPPING = "stopping"
    """Its ranks are being ended."""
    SUCCEEDED = "succeeded"
    """All ranks ended with status 0."""
    FAILED = "failed"
    STOPPED = "stopped"
    """Somebody stopped it."""

    @property
    def ended(self) -> bool:
        return self in (JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED)


class JobRank(Struct, frozen=True, kw_only=True):
    """Where a rank runs. `optical`, `electrical`: the NIC ports that it can send over, `h0.eth0`."""

    host: str
    gpu: int | None = None
    optical: list[str] = []
    electrical: list[str] = []


class JobRecord(Struct, frozen=True, kw_only=True):
    """A job, as it is durable. `entry`: its name in the testbed file. `key`: the secret of its ranks, never shown.

    `lease` and `prepared_set`: what it holds, empty where there is none yet, or none any more. `ending`: the state that
    it goes to, once its ranks have ended and it holds nothing. `why`: why it did not succeed. `joined`: ranks that have
    come; `ends`: how ranks ended, by number.
    """

    id: str
    entry: str
    command: list[str]
    user: str
    ranks: list[JobRank]
    fibres: dict[str, list[str]] = {}
    """By optical NIC port of its hosts: the ports of switches that its fibres lead to, `ocs1.3`."""
    packet_switches: dict[str, str] = {}
    """By NIC port on one: the packet switch that its fibres lead to."""
    rates_mbit_s: dict[str, float] = {}
    """By NIC port, where it is known: what goes over its link each way at most."""
    groups: dict[str, list[int]]
    dimensions: dict[str, str]
    plane: str
    plane_arguments: dict[str, str]
    shim: str
    fallback: bool
    within_s: float
    arrive_within_s: float
    answer_within_s: float
    ready_within_s: float
    plane_within_s: float = 1.0
    plane_memory_mib: int = 1024
    key: str
    by: str
    run: str = ""
    """The run that started it, and whose end is its own end."""
    started_wall_ns: int
    state: JobState = JobState.STARTING
    ending: JobState | None = None
    why: str = ""
    lease: str = ""
    prepared_set: str = ""
    moved: list[str] = []
    """How the light of the job was moved away by others, and when it was back: the last times."""
    joined: list[int] = []
    routed: int = 0
    """How often routes were set that its plane had asked for without a switch."""
    ends: dict[int, ProgramEnd] = {}
    ended_wall_ns: int | None = None

    @override
    def __str__(self) -> str:
        return f"job {self.id} ({self.entry})"

    @property
    def job(self) -> Job:
        """The job as its plane knows it."""
        return Job(
            id=self.id,
            ranks=tuple(Rank(number=number, host=rank.host, gpu=rank.gpu) for number, rank in enumerate(self.ranks)),
            groups={
                name: CommunicationGroup(name=name, ranks=tuple(ranks), dimension=self.dimensions.get(name, ""))
                for name, ranks in self.groups.items()
            },
        )

    @property
    def plane_text(self) -> str:
        """`rotor period_s=0.5`."""
        return " ".join((self.plane, *(f"{key}={value}" for key, value in self.plane_arguments.items())))


class OperationSent(Struct, frozen=True, kw_only=True):
    """How an operation went on its host: when, on the daemon's clock within `error_ns`, and what the NIC ports of the
    host had counted when its rank asked for it and after it, {port: bytes}, with its IP datagrams, where its agent
    counts these. `began_ns` None: its agent was started anew under it. `counted_ns`: `before` was read by then; None
    where that is not known.
    """

    began_ns: int | None
    ended_ns: int
    error_ns: int
    before: dict[str, PortBytes] = {}
    after: dict[str, PortBytes] = {}
    datagrams_before: IpDatagrams | None = None
    datagrams_after: IpDatagrams | None = None
    counted_ns: int | None = None


class JobEvent(Struct, frozen=True, kw_only=True):
    """An event that a job's plane was told, and its answer: enough to bring a second plane to where the first one was.

    `at_ns`: of the daemon's monotonic clock, in the process of that time. `wall_ns`: of its clock of the day.
    `ticked_s`: the last tick before it, which led to no action. `event`: `{"intent": {...}}`. `reconfiguration`: which
    one reached the target, or did not; `ports`: those that the target is about, empty where these are all of the job.
    `sent`: of an operation that has ended, as its agent measured it.
    """

    at_ns: int
    wall_ns: int
    event: NamedEvent
    actions: list[NamedAction]
    ticked_s: float | None = None
    reconfiguration: str = ""
    ports: list[NicPortId] = []
    sent: OperationSent | None = None

    @classmethod
    def of(
        cls,
        event: Event,
        actions: tuple[Action, ...],
        *,
        at_ns: int,
        wall_ns: int,
        ticked_s: float | None,
        reconfiguration: str = "",
        ports: Iterable[NicPortId] = (),
        sent: OperationSent | None = None,
    ) -> "JobEvent":
        return cls(
            at_ns=at_ns,
            wall_ns=wall_ns,
            event=NamedEvent.of(event),
            actions=[NamedAction.of(action) for action in actions],
            ticked_s=ticked_s,
            reconfiguration=reconfiguration,
            ports=[*ports],
            sent=sent,
        )

    @property
    def plane_event(self) -> Event:
        """The event itself."""
        return self.event.event

    @property
    def plane_actions(self) -> tuple[Action, ...]:
        """The actions themselves."""
        return tuple(named.action for named in self.actions)


class JobFact(Fact, frozen=True, kw_only=True):
    """A fact of one job; `entry`: its name in the testbed file."""

    job: str
    entry: str


class JobStarted(JobFact, frozen=True, kw_only=True):
    """The ranks of the job are being started on `hosts`, one entry a rank. `prepared_set` is empty where each switch is
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
    """A message of a process as rank `rank` from `host` was refused, for `why`."""

    KIND: ClassVar = "job.rank-refused"
    rank: int
    host: str
    why: str


class JobSwitched(JobFact, frozen=True, kw_only=True):
    """The job's plane brought the light to `target`, or could not, for `why`; `seconds` from its wish to the answer.

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
    """The job's light was not at `target` any more, as `what` says, and not by the job: `by` says by whom, and why as
    far as that is known. No rank is let go until it is back: `is_over`, after `seconds`, by `reconfiguration` where one
    was needed.
    """

    KIND: ClassVar = "job.moved"
    target: str
    by: str
    what: str
    is_over: bool
    seconds: float
    reconfiguration: str | UnsetType = UNSET


class JobFailure(JobFact, frozen=True, kw_only=True):
    """The job's plane was told that these NIC ports (`h0.eth0`), or hosts, cannot be counted on, for `why`; or,
    `is_over`, that they can be used again.
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
    """The efficiency of the job over the `operations` between hosts that ended in the last minute, every 5 s;
    `left_out`: those of which it cannot be told. `eta` = `gamma` x `delta` x `theta`; null where they cannot be told,
    for `why`. Not in the records as a document: `hwd job efficiency` reads what it is measured from.
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
    """A job has ended after `seconds`: `succeeded`, `failed` or `stopped`, for `why`. It holds nothing any more."""

    KIND: ClassVar = "job.ended"
    outcome: str
    why: str
    seconds: float
