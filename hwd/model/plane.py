"""The interface of a control plane: what it sees of a job and its rack, what it is told, and its answers. Values only.

    class Hold:
        def targets(self, job, view):
            return {"ring": Target(links=view.topology("ring"))}

        def on(self, event):
            match event:
                case Intent(rank=rank): ...
                case Applied(target=target): ...
            return [Switch(target="ring")]

    HOLD = PlaneKind(make=lambda arguments: Hold())

A package declares it in the entry point group `hwd.planes`, by its name. `hwd.planes.actor` states the rules.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.nic_port import NicPortId
from hwd.model.ranks import CommunicationGroup as CommunicationGroup
from hwd.model.ranks import Rank as Rank
from hwd_agents.wire import Operation

GROUP: Final = "hwd.planes"
"""The entry points that declare planes."""


# --- what a plane sees


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as its plane knows it. `groups` by name; ranks are numbered from 0 on."""

    id: str
    ranks: tuple[Rank, ...]
    groups: Mapping[str, CommunicationGroup]

    @property
    def hosts(self) -> tuple[str, ...]:
        """Each once, in the order of the ranks."""
        return tuple(dict.fromkeys(rank.host for rank in self.ranks))


@dataclass(frozen=True, slots=True, kw_only=True)
class PortView:
    """A NIC port as a plane knows it; `gpus`: those of its host that use it, all where it is empty."""

    rail: int | None = None
    numa: int | None = None
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The part of the rack that the job has leased.

    `ports`: its NIC ports on optical switches. `electrical`: those on packet switches. `ends`: its ports of switches,
    `ocs1.3`, for planes that ask for crossconnects. `topology`: the links of a topology by its text, `ring rail=0`,
    among the hosts of the job; it raises ConfigError where they cannot have it.
    """

    ports: Mapping[NicPortId, PortView]
    electrical: Mapping[NicPortId, PortView] = field(default_factory=dict)
    ends: frozenset[str] = frozenset()
    topology: Callable[[str], tuple[Link, ...]]

    def ports_of(self, rank: Rank) -> frozenset[NicPortId]:
        """The optical NIC ports that a rank can send over."""
        return frozenset(
            id
            for id, port in self.ports.items()
            if id.host == rank.host and (rank.gpu is None or not port.gpus or rank.gpu in port.gpus)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticRoute:
    """A route on `host`: the address of the NIC port `to` is reached out of `port`, straight, or via the port `via`."""

    host: str
    to: NicPortId
    port: NicPortId
    via: NicPortId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One wanted state of the job's part of the rack: links, or crossconnects, and routes over them.

    `ports`: that of a region, these NIC ports of the job, each once: the light of all others stays. Its links are among
    them, and it has no routes; a plane with regions has no crossconnects. Empty: it is about all of the job.
    """

    links: tuple[Link, ...] = ()
    crossconnects: tuple[SwitchCrossconnect, ...] = ()
    routes: tuple[StaticRoute, ...] = ()
    ports: tuple[NicPortId, ...] = ()


# --- what a plane is told


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A rank waits for an answer before this operation."""

    rank: int
    operation: Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The operation that the rank was granted has ended: nothing of it is in flight."""

    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Bytes that hosts have for one another, from one to another, by what their ranks announced since the last one: see
    `hwd.planes.AnnouncedDemand`. Only for a plane whose kind says how often.
    """

    bytes_between: Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """These NIC ports, or all ports of these hosts, cannot be counted on from now on, until a Recovery names them.

    Never of light that the plane itself is moving.
    """

    why: str
    ports: tuple[NicPortId, ...] = ()
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """These NIC ports, or hosts, of which a Failure told can be used again."""

    ports: tuple[NicPortId, ...] = ()
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The switches were read back at the target, and its links are ready."""

    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotReady:
    """The target was not reached: the light of its ports is none of a target, or that of another one, until the next
    Applied of these.
    """

    target: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Time goes on: `at_s` since the start of the job. At least every 100 ms, but while somebody else has moved the
    light of the job away: until it is back its plane hears nothing.
    """

    at_s: float


Event = Intent | Done | Demand | Failure | Recovery | Applied | NotReady | Tick


# --- what a plane answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """A further target, where `targets` could not list it. At most `MOST_PREPARED` of the same ports exist, in whatever
    order; the oldest one goes that the light is neither at nor on the way to. Of all ports together there are 4096.
    """

    id: str
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """Bring the light to a target. One at a time, but those of regions that share no NIC port, which move at once."""

    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """These ranks, which wait, may send."""

    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """These ranks, which wait, may not send."""

    ranks: tuple[int, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Set routes without moving light."""

    routes: tuple[StaticRoute, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """Give up the plane's own light: one static ring over all ports of the job, where its policy allows that."""

    why: str


Action = Prepare | Switch | Grant | Refuse | Route | Fallback

MOST_PREPARED: Final = 16
"""Targets of the same ports that a plane prepares beside those of `targets`."""


class Plane(Protocol):
    """A control plane for one job. It has no clock, no socket and no random numbers of its own: the same job, view and
    events make the same actions, also in a second process, which is how it goes on after a crash.
    """

    def targets(self, job: Job, view: View) -> Mapping[str, Target]:
        """Called once, first: all targets, by id, that it is ever going to ask for, where it can list them."""
        ...

    def on(self, event: Event) -> Iterable[Action]:
        """What to do about an event, in this order."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneKind:
    """A kind of control plane, as a package declares it. `arguments`: the names of those that `make` takes, as text.
    `demand_s`: it is told the Demand so far at most so often; None: never.
    """

    make: Callable[[Mapping[str, str]], Plane]
    arguments: tuple[str, ...] = ()
    demand_s: float | None = None
