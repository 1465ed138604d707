"""The control plane of mFabric (MixNet): light for expert all-to-alls, by what their ranks have for one another.

A layer of experts makes four all-to-alls in an iteration, two forward and two backward, with one demand (section 5.1):
its first one says it. From then on the light is brought to that demand while experts compute, and the backward ones
find it again. What the first one goes over is the `First` of the plane.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from hwd.mfabric.copilot import Copilot
from hwd.mfabric.demand import Fold, folded
from hwd.mfabric.loads import Sources, expert_demand
from hwd.mfabric.nic_mapping import OpticalPort, nic_links
from hwd.mfabric.reconfigure_ocs import Variant, reconfigure_ocs
from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.plane import (
    Action,
    Applied,
    Done,
    Event,
    Failure,
    Grant,
    Intent,
    Job,
    NotReady,
    PlaneKind,
    Recovery,
    Refuse,
    Target,
    View,
)
from hwd.planes.gathering import Gathering
from hwd.planes.joined_hosts import are_joined
from hwd.planes.regional_light import Region, RegionalLight
from hwd_agents.wire import Operation, OperationKind
from hwd_drivers.core.errors import ConfigError, FailedError

E = TypeVar("E", bound=StrEnum)
PREDICTED_RANKS_MOST: Final = 64
"""A fit of so many takes tens of milliseconds, in which nobody else is answered."""
Matrix = NDArray[np.float64]
"""Bytes that ranks have for one another, by who sends and who receives, in the order of their group."""


class First(StrEnum):
    """The light of the first all-to-all of a layer (section 5.1 and appendix B)."""

    BLOCK = "block"
    """Light for its own demand: it waits for that."""
    REUSE = "reuse"
    """The light of before."""
    RANDOM = "random"
    """Light for a drawn demand."""
    PREDICT = "predict"
    """Light for the demand that Copilot predicts from the layer before; of the first layer the light of before."""


@dataclass(slots=True)
class _Experts:
    """The ranks of one group that makes all-to-alls. `hosts`: each once; `host_of`: the place there of each rank.
    `region`: all of `ports`.
    """

    hosts: tuple[str, ...]
    host_of: NDArray[np.intp]
    ports: Mapping[str, tuple[NicPortId, ...]]
    region: Region
    number: int
    """Which of the groups of the job."""
    made: int = 0
    """All-to-alls that were let go."""
    drawn: int = 0
    """How often light was drawn for it."""
    demand: dict[int, Matrix] = field(default_factory=dict)
    """By layer, the latest."""
    copilots: dict[int, Copilot] = field(default_factory=dict)
    """By layer, of the loads of ranks: the experts of one rank count as one."""
    wanted: tuple[Link, ...] | None = None
    """Where its light has to be before its next one goes; None where that is open."""
    given_up: int = -1
    """The one that goes over what there is: its light was not ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _HeldOperation:
    """An operation whose ranks have all come. `demand` None: it is no all-to-all of several hosts."""

    group: str
    operation: Operation
    ranks: tuple[int, ...]
    demand: Matrix | None = None


class MFabric:
    """The control plane of mFabric. `layers`: those with experts; each makes two all-to-alls forward and two backward,
    the last layer's first. `degree`: the optical NIC ports of a host that it uses, its first ones; with 0 all goes over
    packet switches.
    """

    def __init__(
        self, *, layers: int, first: First, variant: Variant, fold: Fold, seed: int, degree: int | None
    ) -> None:
        self._layers = layers
        self._degree = degree
        self._first = first
        self._variant = variant
        self._fold = fold
        self._seed = seed
        self._light = RegionalLight()
        self._sending: dict[int, str] = {}
        """Ranks that were let go, and in which group."""
        self._held: list[_HeldOperation] = []
        self._failed: set[NicPortId | str] = set()

    def targets(self, job: Job, view: View) -> Mapping[str, Target]:
        self._job, self._view = job, view
        if self._first is First.PREDICT and len(job.ranks) > PREDICTED_RANKS_MOST:
            raise ConfigError(
                f"mfabric: first=predict: {len(job.ranks)} ranks, over the {PREDICTED_RANKS_MOST} whose loads can be "
                "predicted while others wait. Choose another `first`"
            )
        without = [host for host in job.hosts if not self._has_eps(host)]
        if without and len(job.hosts) > 1:
            raise ConfigError(
                f"mfabric: {', '.join(without)}: no NIC port on a packet switch, over which all goes between hosts "
                "that no light joins straight. Give each host one"
            )
        self._gathering = Gathering(job.groups)
        self._hosts = {rank.number: rank.host for rank in job.ranks}
        self._own = {rank.number: view.ports_of(rank) for rank in job.ranks}
        self._asked: dict[int, Operation] = {}
        self._experts: dict[str, _Experts] = {}
        return {}

    def on(self, event: Event) -> Iterator[Action]:
        match event:
            case Intent(rank=rank, operation=operation):
                self._sending.pop(rank, None)
                self._asked[rank] = operation
                if ranks := self._gathering.come(event):
                    self._held.append(self._arrived(operation, ranks))
            case Done(rank=rank):
                group = self._sending.pop(rank, None)
                if group in self._experts and group not in self._sending.values():
                    self._after(self._experts[group])
            case Applied(target=target):
                self._light.applied(target)
            case NotReady(target=target):
                self._give_up(self._light.not_ready(target))
            case Failure(ports=ports, hosts=hosts):
                self._failed.update(ports, hosts)
            case Recovery(ports=ports, hosts=hosts):
                self._failed.difference_update(ports, hosts)
            case _:
                return
        yield from self._go_on()

    # --- operations

    def _arrived(self, operation: Operation, ranks: tuple[int, ...]) -> _HeldOperation:
        group = operation.group
        held = _HeldOperation(group=group, operation=operation, ranks=ranks)
        if operation.kind is not OperationKind.ALL_TO_ALL or len({self._hosts[rank] for rank in ranks}) < 2:
            return held
        if group not in self._experts:
            self._experts[group] = self._experts_of(group, ranks)
        asked = [self._asked[rank] for rank in ranks]
        parts = [one.parts or (one.size_bytes / len(ranks),) * len(ranks) for one in asked]
        return _HeldOperation(group=group, operation=operation, ranks=ranks, demand=np.array(parts, dtype=np.float64))

    def _experts_of(self, group: str, ranks: Sequence[int]) -> _Experts:
        hosts = tuple(dict.fromkeys(self._hosts[rank] for rank in ranks))
        own = self._ports(ranks)
        ports = {
            host: tuple(sorted((port for port in own if port.host == host), key=NicPortId.sort_key)[: self._degree])
            for host in hosts
        }
        return _Experts(
            hosts=hosts,
            host_of=np.array([hosts.index(self._hosts[rank]) for rank in ranks]),
            ports=ports,
            region=frozenset(port for some in ports.values() for port in some),
            number=[*self._job.groups].index(group),
        )

    def _place(self, made: int) -> tuple[int, int]:
        """The layer of an all-to-all, and which of its four it is, from 0."""
        at = made % (4 * self._layers)
        if at < 2 * self._layers:
            return at // 2, at % 2
        back = at - 2 * self._layers
        return self._layers - 1 - back // 2, 2 + back % 2

    def _after(self, experts: _Experts) -> None:
        """All ranks have ended an all-to-all: where the light has to be for the next one."""
        if self._degree == 0:
            return
        layer, number = self._place(experts.made)
        if number:
            experts.wanted = self._links(experts, experts.demand[layer]) if layer in experts.demand else None
        elif self._first is First.RANDOM:
            draws = np.random.default_rng((self._seed, experts.number, experts.drawn))
            experts.drawn += 1
            size = len(experts.host_of)
            experts.wanted = self._links(experts, draws.random((size, size)))
        elif self._first is First.PREDICT and layer in experts.copilots and experts.demand[layer - 1].any():
            before = experts.demand[layer - 1]
            try:
                loads = experts.copilots[layer].predict(before.sum(axis=0))
            except FailedError:  # no fit is close enough: the light of before
                return
            last = experts.demand[layer]
            sources = Sources.LAST if last.any() else Sources.UNIFORM
            demand = expert_demand(loads, before.sum(), sources=sources, last=last)
            experts.wanted = self._links(experts, demand)

    # --- light

    def _links(self, experts: _Experts, demand: Matrix) -> tuple[Link, ...]:
        """The links for a demand of ranks, over the ports that have not failed (section 5.2)."""
        hosts = experts.hosts
        between = np.zeros((len(hosts), len(hosts)))
        np.add.at(between, (experts.host_of[:, None], experts.host_of[None, :]), demand)
        if not between.any():
            between += 1.0  # nothing to choose by
        ports = [
            [OpticalPort(port, self._view.ports[port].numa) for port in experts.ports[host] if self._works(port)]
            for host in hosts
        ]
        counts = reconfigure_ocs(folded(between, self._fold), [len(some) for some in ports], variant=self._variant)
        lit = [link.ends for link in self._light.at(experts.region)]
        return tuple(Link.of(near, far) for near, far in nic_links(counts, ports, lit=sorted(lit, key=str)))

    def _works(self, port: NicPortId) -> bool:
        return self._failed.isdisjoint((port, port.host))

    def _ports(self, ranks: Sequence[int]) -> frozenset[NicPortId]:
        return frozenset[NicPortId]().union(*(self._own[rank] for rank in ranks))

    # --- what is to be done

    def _go_on(self) -> Iterator[Action]:
        for held in self._held:
            self._settle(held)
        awaited = frozenset[NicPortId]()  # what an operation that came earlier waits for
        for held in [*self._held]:
            ports = self._ports(held.ranks)
            experts = None if held.demand is None else self._experts[held.group]
            wanted = None if experts is None else experts.wanted
            if experts is not None and wanted is not None and not self._light.is_at(experts.region, wanted):
                awaited |= self._light.touched(experts.region, wanted)
            elif ports & self._light.moving:
                awaited |= ports
            elif not ports & awaited:
                self._held.remove(held)
                yield self._answer(held)
        yield from self._switch()

    def _settle(self, held: _HeldOperation) -> None:
        """What an all-to-all that has come wants, where that is open, or a port of it has failed since."""
        if held.demand is None:
            return
        experts = self._experts[held.group]
        layer, number = self._place(experts.made)
        if number == 0:
            experts.demand[layer] = held.demand
        if experts.given_up == experts.made or self._degree == 0:
            return
        is_first = number == 0 and self._first is First.BLOCK and experts.wanted is None
        light = self._light.at(experts.region) if experts.wanted is None else experts.wanted
        if is_first or self._is_dark(experts, light) or self._problem(held, light):
            experts.wanted = self._links(experts, held.demand)

    def _switch(self) -> Iterator[Action]:
        """Switch to the light that groups want: first those whose ranks wait, then those that compute, where nobody
        waits for their ports. Each is a region of its own, and moves while others do; groups that share ports move one
        after the other.
        """
        busy = self._ports([*self._sending])
        awaited = self._ports([rank for held in self._held for rank in held.ranks])
        waiting = dict.fromkeys(held.group for held in self._held)
        for group in dict.fromkeys((*waiting, *self._experts)):
            experts = self._experts.get(group)
            if experts is None or (wanted := experts.wanted) is None or self._light.is_at(experts.region, wanted):
                continue
            touched = self._light.touched(experts.region, wanted)
            if busy & touched or not self._light.is_free(experts.region, wanted):
                continue
            if group in waiting or not touched & (self._kept(experts) | awaited):
                yield from self._light.go(experts.region, wanted)

    def _kept(self, experts: _Experts) -> frozenset[NicPortId]:
        """The ports of other groups whose light is where they want it: none of these is moved before its ranks ask, or
        two groups that share ports would take them from each other again and again.
        """
        kept = frozenset[NicPortId]()
        for other in self._experts.values():
            if other is not experts and other.wanted is not None and self._light.is_at(other.region, other.wanted):
                kept |= other.region
        return kept

    def _answer(self, held: _HeldOperation) -> Action:
        """Let an operation go whose light does not move any more."""
        why = self._problem(held, self._light.links)
        if held.demand is not None:
            experts = self._experts[held.group]
            experts.wanted = None
            if not why:
                self._learn(experts)
                experts.made += 1
        if why:
            return Refuse(ranks=held.ranks, why=f"{held.operation}: {why}")
        self._sending |= dict.fromkeys(held.ranks, held.group)
        return Grant(ranks=held.ranks)

    def _learn(self, experts: _Experts) -> None:
        """Learn from the first all-to-all of a layer, which goes now."""
        layer, number = self._place(experts.made)
        if self._first is not First.PREDICT or number or not layer:
            return
        before, demand = experts.demand[layer - 1], experts.demand[layer]
        if before.any() and demand.any():
            copilot = experts.copilots.setdefault(layer, Copilot(len(experts.host_of)))
            copilot.observe(before.sum(axis=0), demand.sum(axis=0))

    def _give_up(self, ports: frozenset[NicPortId]) -> None:
        """The light of these is not where it was wanted: what waits goes over packet switches, or not at all."""
        for experts in self._experts.values():
            if ports & experts.region:
                experts.wanted = None
                experts.given_up = experts.made

    # --- ways

    def _has_eps(self, host: str) -> bool:
        return any(port.host == host and self._works(port) for port in self._view.electrical)

    def _is_dark(self, experts: _Experts, links: Iterable[Link]) -> bool:
        """Whether a link of the group has a port that has failed."""
        return any(not experts.region.isdisjoint(link.ends) and not all(map(self._works, link.ends)) for link in links)

    def _problem(self, held: _HeldOperation, light: Iterable[Link]) -> str:
        """Hosts that neither light nor packet switches join, as they have to be; empty where there are none."""
        hosts = [*dict.fromkeys(self._hosts[rank] for rank in held.ranks)]
        without = [host for host in hosts if not self._has_eps(host)]
        links = [link for link in light if all(map(self._works, link.ends))]
        if without and not are_joined(hosts, links):
            return f"its light does not join {', '.join(hosts)}, and {without[0]} has no NIC port on a packet switch"
        if held.demand is None or not without:
            return ""
        joined = {frozenset(end.host for end in link.ends) for link in links}
        for near, far in np.argwhere(held.demand).tolist():
            pair = [self._hosts[held.ranks[rank]] for rank in (near, far)]
            lacking = [host for host in pair if host in without]
            if pair[0] != pair[1] and frozenset(pair) not in joined and lacking:
                return f"{pair[0]} and {pair[1]} have no link, and {lacking[0]} has no NIC port on a packet switch"
        return ""


def _made(arguments: Mapping[str, str]) -> MFabric:
    text = arguments.get("layers", "")
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ConfigError(f"mfabric: layers={text}: is the number of layers with experts, at least 1: layers=4")
    seed = arguments.get("seed", "0")
    if not seed.isascii() or not seed.isdigit():
        raise ConfigError(f"mfabric: seed={seed} is no whole number from 0 on")
    degree = arguments.get("degree", "")
    if degree and not (degree.isascii() and degree.isdigit()):
        raise ConfigError(f"mfabric: degree={degree} is no whole number from 0 on")
    return MFabric(
        layers=int(text),
        first=_one_of(First, arguments, "first", First.REUSE),
        variant=_one_of(Variant, arguments, "variant", Variant.SKIP),
        fold=_one_of(Fold, arguments, "fold", Fold.SUM),
        seed=int(seed),
        degree=int(degree) if degree else None,
    )


def _one_of(kind: type[E], arguments: Mapping[str, str], name: str, default: E) -> E:
    text = arguments.get(name, default)
    if text not in [*kind]:
        raise ConfigError(f"mfabric: {name}={text} is none of {', '.join(kind)}")
    return kind(text)


MFABRIC = PlaneKind(make=_made, arguments=("layers", "first", "variant", "fold", "seed", "degree"))
