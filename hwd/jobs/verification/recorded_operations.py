"""The operations of a job as the records have them: when each rank was let go, by which light, and what it counted."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from msgspec import structs

from hwd.model.job import JobEvent, OperationSent
from hwd.model.plane import Applied, Done, Grant, Intent, NotReady, Refuse
from hwd_agents.wire import Operation

Key = tuple[str | int, ...]
"""`Operation.shared`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLight:
    """The target of the light of some NIC ports, and the reconfiguration that reached it; both empty where it is at
    none. `ports` empty: all of the job.
    """

    target: str = ""
    reconfiguration: str = ""
    ports: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedOperation:
    """One operation of one rank, in times of the daemon's clock.

    `light`: where the light was when its plane let it go: a later one counts for its ports, before the ones before it.
    `ended_ns` None: it had not ended when the job did. `sent`: what its agent measured; None where that did not see its
    end. `before` of it is what was counted in time: see `in_time`. `let_go_ns`: when the first of its ranks was let go,
    before which nothing of it can have come; None where that is not known.
    """

    rank: int
    operation: Operation
    granted_ns: int
    light: tuple[TargetLight, ...] = ()
    ended_ns: int | None = None
    let_go_ns: int | None = None
    sent: OperationSent | None = field(default=None, hash=False)

    @property
    def shared(self) -> Key:
        """Equal for the ranks that make it together: `Operation.shared`."""
        return self.operation.shared(self.rank)

    @property
    def began_ns(self) -> int:
        """When the operation began at the latest that is known: as measured, else when it was let go."""
        if self.sent is None or self.sent.began_ns is None:
            return self.granted_ns
        return self.sent.began_ns

    @property
    def over_ns(self) -> int | None:
        """When the operation was over: as measured, else when the daemon heard of it; it may have ended any time before
        that.
        """
        return self.ended_ns if self.sent is None else self.sent.ended_ns

    @property
    def is_measured(self) -> bool:
        """Whether one agent saw it from begin to end. A rank says to a new one that it has ended some time before."""
        return self.sent is not None and self.sent.began_ns is not None

    @property
    def error_ns(self) -> int:
        """The error of these times."""
        return 0 if self.sent is None else self.sent.error_ns

    def __str__(self) -> str:
        return f"rank {self.rank}, {self.operation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedOperations:
    """The operations of a job by its records. `clock_broke`: the daemon's clock began anew between two events, so that
    their times cannot be compared. `gaps`: ranks were let go of whose asking nothing is recorded.
    """

    all: tuple[RecordedOperation, ...]
    reconfigurations: tuple[str, ...]
    """The reconfigurations that brought the light to a target."""
    clock_broke: bool
    gaps: bool = False


def operations_of(events: Iterable[JobEvent]) -> RecordedOperations:
    """Follow what the plane was told and what it answered."""
    waiting: dict[int, Operation] = {}
    let_go_ns: dict[Key, int] = {}
    sending: dict[int, RecordedOperation] = {}
    found: list[RecordedOperation] = []
    applied: list[str] = []
    light: tuple[TargetLight, ...] = ()
    last_ns, clock_broke, gaps = -1, False, False
    for one in events:
        clock_broke |= one.at_ns < last_ns
        last_ns = one.at_ns
        match one.plane_event:
            case Intent(rank=rank, operation=operation):
                waiting[rank] = operation
            case Done(rank=rank) if (begun := sending.pop(rank, None)) is not None:
                found.append(replace(begun, ended_ns=one.at_ns, sent=one.sent))
            case Applied(target=target):
                applied.append(one.reconfiguration)
                new = TargetLight(target=target, reconfiguration=one.reconfiguration, ports=frozenset(one.ports))
                light = (*_without(light, new.ports), new)
            case NotReady():
                new = TargetLight(ports=frozenset(one.ports))
                light = (*_without(light, new.ports), new)
        for action in one.plane_actions:
            if not isinstance(action, Grant | Refuse):
                continue
            for rank in action.ranks:
                asked = waiting.pop(rank, None)
                gaps |= asked is None
                if isinstance(action, Grant) and asked is not None:
                    let_go_ns.setdefault(asked.shared(rank), one.at_ns)
                    sending[rank] = RecordedOperation(
                        rank=rank,
                        operation=asked,
                        granted_ns=one.at_ns,
                        light=light,
                    )
    return RecordedOperations(
        all=(*(_in_time(one, let_go_ns[one.shared]) for one in found), *sending.values()),
        reconfigurations=tuple(applied),
        clock_broke=clock_broke,
        gaps=gaps,
    )


def in_time(sent: OperationSent, let_go_ns: int) -> OperationSent:
    """How an operation went without what was counted before it, where that may have been read after its first rank was
    let go: an agent that was started again counts first when the rank asks again, and what others sent may have come.
    """
    if sent.counted_ns is None or sent.counted_ns <= let_go_ns:
        return sent
    return structs.replace(sent, before={}, datagrams_before=None, counted_ns=None)


def _in_time(one: RecordedOperation, let_go_ns: int) -> RecordedOperation:
    return replace(one, let_go_ns=let_go_ns, sent=None if one.sent is None else in_time(one.sent, let_go_ns))


def _without(light: Iterable[TargetLight], ports: frozenset[str]) -> tuple[TargetLight, ...]:
    """The targets of which something is left when these ports, or all (empty), go to another target."""
    return tuple(one for one in light if ports and not (one.ports and one.ports <= ports))
