"""The conformance suite of control planes: any plane against drawn jobs, ranks that come late, and faults.

    def test_my_plane_keeps_the_rules():
        check_plane(lambda: MyPlane(period_s=0.5))

Each job is played in virtual time by `hwd.planes.PlaneActor`, which holds the plane to its rules. The plane runs in a
process of its own, with the memory and the time for each answer that it has in a daemon. The first breach is raised as
a `hwd.planes.PlaneError`, with the story of the job up to there.
"""

import asyncio
import heapq
import random
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from hwd.client.loop_thread import LoopThread
from hwd.config.planes.process import WITHIN_S
from hwd.daemon.installed_drivers import load_text
from hwd.jobs.view import view_of
from hwd.model.plane import (
    Action,
    Applied,
    CommunicationGroup,
    Done,
    Event,
    Failure,
    Intent,
    Job,
    NotReady,
    Plane,
    Rank,
    Recovery,
    Tick,
    View,
)
from hwd.model.testbed import Testbed
from hwd.planes import AnnouncedDemand
from hwd.planes.actor import AnswerRanks, Command, DriveTo, PlaneActor
from hwd.planes.breach import Breach, PlaneError
from hwd.planes.runner import PlaneRunner
from hwd.testing.forked_plane import forked_plane
from hwd_agents.wire import Operation, OperationKind
from hwd_drivers.core.errors import ConfigError

STUCK_S: Final = 30.0
"""A job with a rank that never comes ends then."""
ANSWER_S: Final = 10.0
"""So long a group of ranks may wait after the last one has come, while switches need 0.06 s at most."""
LONGEST_S: Final = 300.0
"""The longest time of a job, in virtual time; one ends after some seconds."""
TICK_S: Final = 0.05
DEMAND_S: Final = 0.2
MOVE_S: Final = (0.005, 0.06)
ROUNDS: Final = (3, 12)
STORY_LINES: Final = 60
SHORT_S, LONG_S = 0.02, 0.8

MakePlane = Callable[[], Plane]
Act = Callable[[], Coroutine[None, None, None]]


def check_plane(make: MakePlane, *, jobs: int = 60, seed: int = 0, within_s: float = WITHIN_S) -> int:
    """Play drawn jobs of 2 to 8 hosts against new planes of `make`, each in a process that is forked from this one, and
    has `within_s` for each answer. Returns how many of the jobs the plane could take.

    Raises PlaneError at the first breach, and ConfigError where it could take none: its topologies need other hosts.
    """
    loop = LoopThread("check-plane")  # a test may have an event loop of its own
    try:
        return loop.run(_check(lambda: forked_plane(make, within_s=within_s), jobs, seed))
    finally:
        loop.close(lambda: asyncio.sleep(0))


async def _check(run: Callable[[], PlaneRunner], jobs: int, seed: int) -> int:
    passed = 0
    why = ""
    for number in range(jobs):
        try:
            await _World(run, random.Random(f"{seed}/{number}"), f"job {number} of seed {seed}").play()
        except ConfigError as error:  # these hosts cannot have its topology
            why = str(error)
        else:
            passed += 1
    if not passed:
        raise ConfigError(f"none of the {jobs} drawn jobs has hosts for this plane; of the last one: {why}")
    return passed


@dataclass(slots=True)
class _RankState:
    """The state of one rank: what it has still to do."""

    operations: list[Operation]
    is_late_for_ever: bool = False
    current: Operation | None = None


@dataclass(slots=True)
class _Collective:
    """One operation of a group: who has come, and who was let go."""

    needed: tuple[int, ...]
    came: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    whole_since_s: float | None = None


class _World:
    """One drawn job with its ranks, its switches and its faults, in virtual time."""

    def __init__(self, run: Callable[[], PlaneRunner], draws: random.Random, name: str) -> None:
        self._run = run
        self._draws = draws
        self._name = name
        self._now_s = 0.0
        self._due: list[tuple[float, int, Act]] = []
        self._count = 0
        self._story: list[str] = []
        self._taken_events: list[tuple[Event, tuple[Action, ...]]] = []
        self._had_fault = False
        self._refused = False
        testbed, self._job = _drawn_job(draws)
        self._view: View = view_of(testbed, self._job)
        self._ranks = self._drawn_ranks()
        self._collectives: dict[tuple[object, ...], _Collective] = {}
        self._fails = draws.random() < 0.3
        self._demand = AnnouncedDemand(self._job, every_s=DEMAND_S)

    async def play(self) -> None:
        """Play the world to the end of the job. Raises PlaneError with the story."""
        self._plane = self._run()
        try:
            self._actor = PlaneActor(await self._plane.begin(self._job, self._view), self._job, self._view)
            self._declared = dict(self._actor.targets)
            for rank, state in self._ranks.items():
                if not state.is_late_for_ever:
                    self._at(self._skew_s(), partial(self._go_on, rank))
            self._at(0.0, self._tick)
            if self._fails and self._draws.random() < 0.5:
                self._at(self._draws.uniform(0.1, 2.0), self._lose_a_port)
            while self._due and not self._is_over():
                self._now_s, _, act = heapq.heappop(self._due)
                await act()
                self._look_for_silence()
            await self._play_again()
        except PlaneError as error:
            story = "\n".join(self._story[-STORY_LINES:])
            raise PlaneError(error.breach, f"{error.what}\n{self._name}, at {self._now_s:.3f} s\n{story}") from error
        finally:
            await self._plane.close()

    # --- the ranks

    async def _go_on(self, rank: int) -> None:
        """The next operation of a rank: it asks, and waits."""
        state = self._ranks[rank]
        if not state.operations:
            return
        state.current = state.operations.pop(0)
        collective = self._collective(rank, state.current)
        collective.came.add(rank)
        if collective.came.issuperset(collective.needed):
            collective.whole_since_s = self._now_s
        await self._tell(Intent(rank=rank, operation=state.current))

    def _answer(self, command: AnswerRanks) -> None:
        if command.why:
            if not self._had_fault:
                raise PlaneError(
                    Breach.NO_ANSWER, f"it refuses {command.ranks} ({command.why}), and nothing has failed"
                )
            self._refused = True
            return
        for rank in command.ranks:
            operation = self._ranks[rank].current
            assert operation is not None
            collective = self._collective(rank, operation)
            collective.gone.add(rank)
            if collective.gone.issuperset(collective.needed):
                ends_s = self._draws.expovariate(1 / SHORT_S)
                for one in collective.needed:
                    self._at(ends_s + self._draws.uniform(0, 0.002), partial(self._end, one))

    async def _end(self, rank: int) -> None:
        await self._tell(Done(rank=rank))
        self._at(self._skew_s(), partial(self._go_on, rank))

    def _collective(self, rank: int, operation: Operation) -> _Collective:
        if operation.peer is None:
            needed = self._job.groups[operation.group].ranks
        else:
            needed = tuple(sorted((rank, operation.peer)))
        return self._collectives.setdefault(operation.shared(rank), _Collective(needed=needed))

    def _skew_s(self) -> float:
        """Most ranks come within milliseconds, some late."""
        return self._draws.expovariate(1 / (LONG_S if self._draws.random() < 0.05 else SHORT_S))

    # --- the switches

    def _carry_out(self, command: Command) -> None:
        match command:
            case DriveTo(target=target):
                fails = self._fails and self._draws.random() < 0.3
                self._at(self._draws.uniform(*MOVE_S), partial(self._moved, target, fails=fails))
            case AnswerRanks():
                self._answer(command)
            case _:
                return  # routes and further targets have no light of their own

    async def _moved(self, target: str, *, fails: bool) -> None:
        self._had_fault |= fails
        await self._tell(NotReady(target=target, why="ocs1: a mirror is stuck") if fails else Applied(target=target))

    async def _lose_a_port(self) -> None:
        """Lose a port, or all ports of a host; what is lost comes back, or not."""
        self._had_fault = True
        port = self._draws.choice([*self._view.ports])
        if self._draws.random() < 0.3:
            failure, recovery = Failure(why="its agent is away", hosts=(port.host,)), Recovery(hosts=(port.host,))
        else:
            failure = Failure(why="it has no carrier, though the target of its plane lights it", ports=(port,))
            recovery = Recovery(ports=(port,))
        await self._tell(failure)
        if self._draws.random() < 0.7:
            self._at(self._draws.uniform(0.1, 2.0), partial(self._tell, recovery))

    async def _tick(self) -> None:
        await self._tell(Tick(at_s=round(self._now_s, 6)))
        if (demand := self._demand.due(at_s=self._now_s)) is not None:
            await self._tell(demand)
        self._at(TICK_S, self._tick)

    # --- the rules that take time

    def _look_for_silence(self) -> None:
        for rank in self._actor.waiting:
            operation = self._ranks[rank].current
            assert operation is not None
            since_s = self._collective(rank, operation).whole_since_s
            if since_s is not None and self._now_s - since_s > ANSWER_S and not self._refused:
                raise PlaneError(
                    Breach.NO_ANSWER, f"rank {rank} waits for {operation}, for which all have come {ANSWER_S:g} s ago"
                )

    def _is_over(self) -> bool:
        if self._refused:
            return True
        if self._now_s > LONGEST_S:
            raise PlaneError(Breach.NO_ANSWER, f"the job has not ended within {LONGEST_S:g} s")
        stuck = any(state.is_late_for_ever for state in self._ranks.values())
        if stuck:  # the others wait for the one that never comes: nobody can let them go
            return self._now_s > STUCK_S
        return all(
            not state.operations and rank not in self._actor.waiting for rank, state in self._ranks.items()
        ) and (not self._actor.sending)

    async def _play_again(self) -> None:
        """Play the same events to a second plane: a daemon that is started again goes on so."""
        plane = self._run()
        try:
            if dict(await plane.begin(self._job, self._view)) != self._declared:
                raise PlaneError(Breach.NOT_DETERMINISTIC, "its targets are others the second time")
            for event, before in self._taken_events:
                plane.tell(event)
                try:
                    now = await plane.answer()
                except PlaneError as error:
                    raise PlaneError(Breach.NOT_DETERMINISTIC, f"{event}: the second time {error}") from error
                if now != before:
                    raise PlaneError(Breach.NOT_DETERMINISTIC, f"{event}: first {before}, then {now}")
        finally:
            await plane.close()

    # --- inside

    async def _tell(self, event: Event) -> None:
        self._plane.tell(event)
        actions = await self._plane.answer()
        commands = self._actor.take(event, actions)
        self._demand.take(event, at_s=self._now_s)
        self._taken_events.append((event, actions))
        if commands or not isinstance(event, Tick):
            self._story.append(f"{self._now_s:9.3f} s  {event}")
            self._story += [f"             -> {action}" for action in actions]
        for command in commands:
            self._carry_out(command)

    def _at(self, after_s: float, act: Act) -> None:
        self._count += 1
        heapq.heappush(self._due, (self._now_s + after_s, self._count, act))

    def _drawn_ranks(self) -> dict[int, _RankState]:
        ranks = {rank.number: _RankState(operations=[]) for rank in self._job.ranks}
        counts = dict.fromkeys(self._job.groups, 0)
        dimensions = sorted({group.dimension for group in self._job.groups.values()})
        for _ in range(self._draws.randint(*ROUNDS)):
            dimension = self._draws.choice(dimensions)
            kind = self._draws.choice((OperationKind.ALL_REDUCE, OperationKind.ALL_GATHER, OperationKind.ALL_TO_ALL))
            in_pairs = self._draws.random() < 0.25
            for group in self._job.groups.values():
                if group.dimension == dimension and in_pairs:
                    index = counts[group.name]
                    counts[group.name] += 1
                    for one, other in zip(group.ranks[::2], group.ranks[1::2], strict=False):
                        for kind, rank, peer in (
                            (OperationKind.SEND, one, other),
                            (OperationKind.RECEIVE, other, one),
                        ):
                            ranks[rank].operations.append(
                                Operation(group=group.name, kind=kind, index=index, size_bytes=1 << 20, peer=peer)
                            )
                elif group.dimension == dimension:
                    operation = Operation(group=group.name, kind=kind, index=counts[group.name], size_bytes=1 << 20)
                    counts[group.name] += 1
                    says_parts = kind is OperationKind.ALL_TO_ALL and self._draws.random() < 0.7
                    for rank in group.ranks:
                        ranks[rank].operations.append(self._with_parts(operation) if says_parts else operation)
        if self._draws.random() < 0.1:
            ranks[self._draws.choice([*ranks])].is_late_for_ever = True
        return ranks

    def _with_parts(self, operation: Operation) -> Operation:
        """Give an operation parts of drawn sizes, some of them nothing."""
        parts = tuple(
            self._draws.choice((0, self._draws.randrange(1 << 20))) for _ in self._job.groups[operation.group].ranks
        )
        return replace(operation, parts=parts, size_bytes=sum(parts))


def _drawn_job(draws: random.Random) -> tuple[Testbed, Job]:
    """One or two GPUs a host, each with NIC ports of its own on a rail; groups of two dimensions, at times others that
    overlap. Half of the racks have a packet switch too.
    """
    hosts, gpus, ports = draws.choice((2, 4, 4, 6, 8)), draws.choice((1, 2)), draws.choice((2, 2, 3))
    ranks = tuple(
        Rank(number=host * gpus + gpu, host=f"h{host}", gpu=gpu) for host in range(hosts) for gpu in range(gpus)
    )
    groups: dict[str, CommunicationGroup] = {}
    for gpu in range(gpus):
        members = tuple(rank.number for rank in ranks if rank.gpu == gpu)
        groups[f"dp{gpu}"] = CommunicationGroup(name=f"dp{gpu}", ranks=members, dimension="dp")
    everybody = tuple(rank.number for rank in ranks)
    if draws.random() < 0.5:
        groups["all"] = CommunicationGroup(name="all", ranks=everybody, dimension="all")
    if draws.random() < 0.3:  # groups that have some of their ranks in common
        for number in range(draws.randint(2, 4)):
            members = tuple(sorted(draws.sample(everybody, draws.randint(2, len(everybody)))))
            groups[f"some{number}"] = CommunicationGroup(name=f"some{number}", ranks=members, dimension=f"some{number}")
    has_packets = draws.random() < 0.5
    return _rack(hosts, gpus, ports, has_packets), Job(id="drawn", ranks=ranks, groups=MappingProxyType(groups))


@cache
def _rack(hosts: int, gpus: int, ports: int, has_packets: bool) -> Testbed:
    """All NIC ports on one switch, and one of each host on a packet switch where there is one."""
    lines = ["testbed: drawn", "switches:", "  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 64x64, "]
    lines[-1] += "twin: {timing: ideal, seed: 1}}"
    if has_packets:
        lines += ["packet_switches:", f"  eps1: {{ports: {hosts}}}"]
    lines.append("hosts:")
    fibres = []
    for host in range(hosts):
        lines += [f"  h{host}:", f"    gpus: {_flow({gpu: {} for gpu in range(gpus)})}", "    nics:"]
        for port in range(gpus * ports):
            gpu = port // ports
            lines.append(f"      eth{port}: {{rail: {gpu}, gpus: [{gpu}], module: 100g-lr4}}")
            fibres.append(f"  - h{host}.eth{port} <-> ocs1.{host * gpus * ports + port + 1}")
        if has_packets:
            lines.append(f"      eth{gpus * ports}: {{module: 100g-lr4}}")
            fibres.append(f"  - h{host}.eth{gpus * ports} <-> eps1.{host + 1}")
    return load_text("\n".join([*lines, "fibres:", *fibres, ""]), file="drawn.yaml").require()


def _flow(mapping: Mapping[int, object]) -> str:
    return "{" + ", ".join(f"{key}: {{}}" for key in mapping) + "}"
