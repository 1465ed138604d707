"""HostView: one host's agent as other packages see it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from hwd.bus.birth_data import selection_trouble, spool_of, wall_clock
from hwd.bus.clocks.clock_exchange import ClockExchange
from hwd.bus.host_agent import HostAgent
from hwd.model.host import NEVER_CONNECTED, HostPort, HostStatus
from hwd.timeline.alignment import Alignment
from hwd_agents.wire import Birth


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """The state of a host's agent at the time of the call.

    `boot` and `birth` are None until the agent first connects, `alignment` until its clock is aligned.

    `lost`: events that are gone, and flaps that nobody saw one by one, since the daemon started. `exchange`:
    the requests that align its clock. `trouble`: the work of the daemon that fails for this host; empty where all
    works. `cause`: why it is not up. `heard_wall_ns`: when its last message came. `rival`: another boot that claims to
    be this host; its messages are ignored while `boot` answers.
    """

    host: str
    boot: str | None = None
    up: bool = False
    cause: str = NEVER_CONNECTED
    heard_wall_ns: int | None = None
    birth: Birth | None = None
    alignment: Alignment | None = None
    exchange: ClockExchange | None = None
    lost: int = 0
    trouble: str = ""
    rival: str | None = None

    def __str__(self) -> str:
        return f"{self.host} {'up' if self.up else 'down'} {self.alignment or 'not aligned'}"

    @classmethod
    def of(cls, agent: HostAgent, *, alignment: Alignment | None, heard_wall_ns: int | None, trouble: str) -> Self:
        return cls(
            host=agent.name,
            boot=agent.boot,
            up=agent.up,
            cause=agent.cause,
            heard_wall_ns=heard_wall_ns,
            birth=agent.birth,
            alignment=alignment,
            exchange=agent.exchange,
            lost=agent.lost,
            trouble=trouble,
            rival=None if agent.rival is None else agent.rival.birth.boot,
        )

    def status(self, ports: Mapping[str, HostPort], *, since_wall_ns: int | None = None, skew: str) -> HostStatus:
        """The status of the host with the present state of its ports, and since when it is up or down; `skew`: why its
        version does not fit the daemon's.
        """
        birth = self.birth
        clock = None
        if self.exchange is not None and self.alignment is not None:
            clock = self.exchange.status(self.alignment)
        return HostStatus(
            host=self.host,
            up=self.up,
            cause=self.cause,
            since_wall_ns=since_wall_ns,
            heard_wall_ns=self.heard_wall_ns,
            boot=self.boot,
            version=None if birth is None else birth.version,
            clock=clock,
            wall_clock=None if birth is None else wall_clock(birth),
            ports=dict(ports),
            settings=[] if birth is None else birth.settings,
            lost=self.lost,
            rival=self.rival,
            trouble=self.trouble,
            spool=None if birth is None else spool_of(birth),
            selection="" if birth is None else selection_trouble(birth),
            skew=skew,
        )


class HostViews(Mapping[str, HostView]):
    """All hosts by name. A view is made when it is read: most callers read one host of many."""

    def __init__(self, hosts: Mapping[str, HostAgent], view: Callable[[HostAgent], HostView]) -> None:
        self._hosts = hosts
        self._view = view

    def __getitem__(self, name: str) -> HostView:
        return self._view(self._hosts[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._hosts)

    def __len__(self) -> int:
        return len(self._hosts)
