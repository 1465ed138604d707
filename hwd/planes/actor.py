"""PlaneActor: what may be done of what a plane asks for, and what it is told. The rules that hold for any plane.

    actor = PlaneActor(await runner.begin(job, view), job, view)
    runner.tell(event)
    for command in actor.take(event, await runner.answer()):
        match command: ...

It has no clock and drives nothing: whoever has the switches carries the commands out and takes the events in, with the
switches of a rack (`hwd.jobs`), or with none (`hwd.testing.check_plane`). So a stranger's plane is held to one set of
rules in both.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace

from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.plane import (
    MOST_PREPARED,
    Action,
    Applied,
    Done,
    Event,
    Failure,
    Fallback,
    Grant,
    Intent,
    Job,
    NotReady,
    Prepare,
    Recovery,
    Refuse,
    Route,
    StaticRoute,
    Switch,
    Target,
    View,
)
from hwd.planes.breach import Breach, PlaneError
from hwd.planes.joined_hosts import are_joined
from hwd.planes.target_rules import FALLBACK, MOST_TARGETS, TargetRules, words
from hwd_agents.wire import Operation
from hwd_drivers.core.errors import BugError

# --- what is to be done


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareTarget:
    """Make this target ready; `gone`: one that is not needed any more."""

    id: str
    target: Target
    gone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DriveTo:
    """Bring the light to a target, and tell Applied or NotReady. `why`: of a fallback."""

    target: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRanks:
    """Let these ranks go, or (`why`) refuse them."""

    ranks: tuple[int, ...]
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRoutes:
    """Set these routes of hosts."""

    routes: tuple[StaticRoute, ...]


Command = PrepareTarget | DriveTo | AnswerRanks | SetRoutes


class PlaneActor:
    """One plane with one job. `fallback`: the target of a Fallback; None where the policy has none.

    `targets`: those that exist now. `waiting`: what each rank that waits is about to do. `sending`: ranks that were let
    go and have not ended. `at`: the targets that the light is at, the latest last, each with those of its ports that no
    later one has taken. `moving`: those that it is on the way to, each with the ports that it is about and those at the
    other ends of links that it takes away. `routes`: those that are set, or may be. Every method raises PlaneError,
    after which the actor is of no use any more.
    """

    def __init__(self, targets: Mapping[str, Target], job: Job, view: View, *, fallback: Target | None = None) -> None:
        self._job = job
        self._view = view
        self._ranks = {rank.number: rank for rank in job.ranks}
        self._prepared: dict[frozenset[NicPortId], list[str]] = {}
        """By the ports that they are about, the oldest first."""
        self.waiting: dict[int, Operation] = {}
        self.sending: set[int] = set()
        self.at: dict[str, frozenset[NicPortId]] = {}
        self.moving: dict[str, frozenset[NicPortId]] = {}
        self._dark: frozenset[NicPortId] = frozenset()
        """Ports of no target in `at`, whose link another region has taken away."""
        self.routes: tuple[StaticRoute, ...] = ()
        self._rules = TargetRules(view)
        self._fallback = fallback
        self._failed: set[NicPortId | str] = set()
        """NIC ports and hosts of which a Failure told, and no Recovery."""
        self.targets = self._rules.declared(targets)
        if fallback is not None:
            self.targets[FALLBACK] = fallback
        for id, target in self.targets.items():
            self._rules.check(id, target)

    def take(self, event: Event, actions: Iterable[Action]) -> tuple[Command, ...]:
        """Take an event and what the plane answers to it. Returns what is to be done about it, in this order."""
        self._enter(event)
        return tuple(command for action in actions for command in self._command(action))

    @property
    def lit_links(self) -> tuple[Link, ...]:
        """The links of the targets that the light is at; none of one of crossconnects."""
        return tuple(link for id, ports in self.at.items() for link in self.targets[id].links if ports >= {*link.ends})

    def touched_by(self, target: str) -> frozenset[NicPortId]:
        """The NIC ports whose links are others at a target than now; all that it is about where that is not known."""
        wanted, own = self.targets[target], self._ports_of(target)
        if any({*self.targets[id].crossconnects} != {*wanted.crossconnects} for id in self.at):
            return frozenset(self._view.ports)  # which of them is not known here
        changed = _ends({*wanted.links} ^ {link for link in self.lit_links if not own.isdisjoint(link.ends)})
        return changed if self._dark.union(*self.at.values()) >= own else own | changed

    def _ports_of(self, target: str) -> frozenset[NicPortId]:
        """The ports that a target is about."""
        return frozenset(self.targets[target].ports or self._view.ports)

    # --- events

    def _enter(self, event: Event) -> None:
        match event:
            case Intent(rank=rank):
                self._known(rank)
                if rank in self.waiting:
                    raise BugError(f"plane of job {self._job.id}: rank {rank} asks while it waits")
                self.sending.discard(rank)
                self.waiting[rank] = event.operation
            case Done(rank=rank):
                self._known(rank)
                self.sending.discard(rank)
            case Failure(ports=ports, hosts=hosts):
                self._failed.update(ports, hosts)
            case Recovery(ports=ports, hosts=hosts):
                self._failed.difference_update(ports, hosts)
            case Applied(target=target) | NotReady(target=target):
                self._arrive(target, is_there=isinstance(event, Applied))
            case _:
                return

    def _arrive(self, target: str, *, is_there: bool) -> None:
        """The light of its ports is at this target from now on; or (not `is_there`) nobody knows where."""
        if target not in self.moving:
            words = ", ".join(self.moving) or "none"
            raise BugError(f"plane of job {self._job.id}: {target} ends, and {words} is on its way")
        moved, own = self.moving.pop(target), self._ports_of(target)
        left = {id: ports - moved for id, ports in self.at.items()}
        self.at = {id: ports for id, ports in left.items() if ports}
        self._dark -= moved
        if is_there:
            self.at[target] = own
            self._dark |= moved - own
        if not self.targets[target].ports:
            wanted = self.targets[target].routes
            self.routes = wanted if is_there else (*self.routes, *wanted)

    def _known(self, rank: int) -> None:
        if rank not in self._ranks:
            raise BugError(f"plane of job {self._job.id}: there is no rank {rank}")

    # --- actions

    def _command(self, action: Action) -> Iterator[Command]:
        match action:
            case Prepare():
                yield self._prepare(action)
            case Switch(target=target):
                yield self._switch(target)
            case Fallback(why=why):
                yield from self._fall_back(why)
            case Grant(ranks=ranks):
                self._check_waiting(ranks)
                for rank in ranks:
                    self._check_grant(rank)
                for rank in ranks:
                    del self.waiting[rank]
                self.sending.update(ranks)
                yield AnswerRanks(ranks=ranks)
            case Refuse(ranks=ranks, why=why):
                self._check_waiting(ranks)
                for rank in ranks:
                    del self.waiting[rank]
                yield AnswerRanks(ranks=ranks, why=why or "its control plane gave no reason")
            case Route(routes=routes):
                self._rules.check_routes("a route", routes)
                if self.moving:
                    raise PlaneError(Breach.MOVING, f"it sets routes on the way to {', '.join(self.moving)}")
                self._check_senders("a route", frozenset(), self._rerouted(routes))
                self.routes = routes
                yield SetRoutes(routes=routes)

    def _prepare(self, action: Prepare) -> PrepareTarget:
        if action.id == FALLBACK:
            raise PlaneError(Breach.NOT_ALLOWED, f"it prepares a target of its own that is named {FALLBACK}")
        if action.id in self.targets:
            raise PlaneError(Breach.OVERLAP, f"it prepares {action.id} a second time")
        self._rules.check(action.id, action.target)
        gone = None
        about = frozenset(action.target.ports)
        if len(self._prepared.get(about, ())) == MOST_PREPARED:
            gone = self._drop([about])
        elif len(self.targets) >= MOST_TARGETS + MOST_PREPARED:
            gone = self._drop([*self._prepared])
        self.targets[action.id] = action.target
        self._prepared.setdefault(about, []).append(action.id)
        return PrepareTarget(id=action.id, target=action.target, gone=gone)

    def _drop(self, about: Iterable[frozenset[NicPortId]]) -> str:
        """The oldest target of the first of these ports where the light is neither at one nor on the way to it. Of the
        same ports there are two of these at most.
        """
        for ports in about:
            for id in self._prepared[ports]:
                if id not in self.at and id not in self.moving:
                    self._prepared[ports].remove(id)
                    if not self._prepared[ports]:
                        del self._prepared[ports]
                    del self.targets[id]
                    return id
        raise PlaneError(Breach.NO_ACTION, f"it prepares a target over the {MOST_TARGETS} that there may be")

    def _switch(self, target: str) -> DriveTo:
        if target not in self.targets:
            raise PlaneError(Breach.UNDECLARED, f"{target}; there are {', '.join(self.targets) or 'none'}")
        touched = self.touched_by(target)
        about = self._ports_of(target) | touched
        for other, ports in self.moving.items():
            if not self.targets[target].ports or not about.isdisjoint(ports):
                raise PlaneError(Breach.MOVING, f"to {target}, on the way to {other}")
        self._check_senders(target, touched, self._routed_by(target))
        self.moving[target] = about
        return DriveTo(target=target)

    def _routed_by(self, target: str) -> set[str]:
        """Hosts whose routes are others at a target. That of a region has none, and leaves them as they are."""
        return set() if self.targets[target].ports else self._rerouted(self.targets[target].routes)

    def _fall_back(self, why: str) -> Iterator[Command]:
        """Go to the fallback without the links that have failed, where the rest joins all hosts; else to all of it."""
        if self._fallback is None:
            raise PlaneError(Breach.NOT_ALLOWED, f"for {why!r}; the job has no fallback")
        left = tuple(
            link
            for link in self._fallback.links
            if self._failed.isdisjoint({*link.ends, *(end.host for end in link.ends)})
        )
        target = replace(self._fallback, links=left) if are_joined(self._job.hosts, left) else self._fallback
        if target != self.targets[FALLBACK]:
            self.at.pop(FALLBACK, None)  # the light is at the one of before
            self.targets[FALLBACK] = target
            yield PrepareTarget(id=FALLBACK, target=target)
        yield replace(self._switch(FALLBACK), why=why)

    def _rerouted(self, routes: Iterable[StaticRoute]) -> set[str]:
        return {route.host for route in {*self.routes} ^ {*routes}}

    def _check_senders(self, to: str, touched: Set[NicPortId], routed: Set[str]) -> None:
        """Nothing of a rank that sends may change: its light, or the routes of its host."""
        for rank in sorted(self.sending):
            if cut := touched & self._view.ports_of(self._ranks[rank]):
                raise PlaneError(Breach.UNDER_TRANSFER, f"to {to}: rank {rank} sends over {words(cut)}")
            if self._ranks[rank].host in routed:
                raise PlaneError(Breach.UNDER_TRANSFER, f"to {to}: rank {rank} sends by routes of its host")

    def _check_waiting(self, ranks: tuple[int, ...]) -> None:
        if strange := [rank for rank in ranks if rank not in self.waiting or ranks.count(rank) > 1]:
            raise PlaneError(Breach.NOT_WAITING, ", ".join(f"rank {rank}" for rank in strange))

    def _check_grant(self, rank: int) -> None:
        own, moved = self._view.ports_of(self._ranks[rank]), frozenset[NicPortId]()
        for moving in self.moving:
            touched = self.touched_by(moving)
            moved |= touched
            if touched & own:
                raise PlaneError(
                    Breach.EARLY_GRANT,
                    f"rank {rank}: {words(touched & own)} move to {moving}, which is not applied yet",
                )
            if self._ranks[rank].host in self._routed_by(moving):
                raise PlaneError(
                    Breach.EARLY_GRANT, f"rank {rank}: routes of its host change to {moving}, which is not applied yet"
                )
        hosts = self._hosts_of(rank)
        if len(hosts) < 2 or all(any(port.host == host for port in self._view.electrical) for host in hosts):
            return  # no light is needed
        if not self.at:
            raise PlaneError(Breach.EARLY_GRANT, f"rank {rank}: the light is at no target of the plane")
        lit = [link for link in self.lit_links if moved.isdisjoint(link.ends)]
        if any(self.targets[id].crossconnects for id in self.at) or are_joined(hosts, lit):
            return
        raise PlaneError(
            Breach.EARLY_GRANT, f"rank {rank}: the light of {', '.join(self.at)} does not join {', '.join(hosts)}"
        )

    def _hosts_of(self, rank: int) -> tuple[str, ...]:
        """Those between which the operation that a rank waits for sends."""
        operation = self.waiting[rank]
        if operation.peer is not None:
            ranks: tuple[int, ...] = (rank, operation.peer)
        else:
            ranks = self._job.groups[operation.group].ranks
        return tuple(dict.fromkeys(self._ranks[one].host for one in ranks))


def _ends(links: Iterable[Link]) -> frozenset[NicPortId]:
    return frozenset(end for link in links for end in link.ends)
