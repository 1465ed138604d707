"""HostView: one host's agent as other packages see it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

import msgspec

from hwd.bus.birth_data import ports_data, selection_trouble, settings_data, spool_data, wall_data
from hwd.bus.host_agent import NEVER_HEARD, HostAgent
from hwd.timeline.alignment import Alignment
from hwd_agents.wire import Birth
from hwd_drivers.core.documents import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """The state of a host's agent at the time of the call.

    `boot` and `birth` are None until the agent first connects, `alignment` until its clock is aligned.

    `lost`: events that are gone, and flaps that nobody saw one by one, since the daemon started. `asked`:
    `ClockExchange.to_data`. `trouble`: the work of the daemon that fails for this host; empty where all works. `cause`:
    why it is not up. `heard_wall_ns`: when its last message came. The carrier of a port is None where its present state
    is unknown. `rival`: another boot that claims to be this host; its messages are ignored while `boot` answers.
    """

    host: str
    boot: str | None = None
    up: bool = False
    cause: str = NEVER_HEARD
    heard_wall_ns: int | None = None
    birth: Birth | None = None
    alignment: Alignment | None = None
    asked: Mapping[str, Json] = field(default_factory=dict)
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
            asked={} if agent.exchange is None else agent.exchange.to_data(),
            lost=agent.lost,
            trouble=trouble,
            rival=None if agent.rival is None else agent.rival.birth.boot,
        )

    def to_data(self) -> dict[str, Json]:
        return {
            "host": self.host,
            "up": self.up,
            "cause": self.cause,
            "heard_wall_ns": self.heard_wall_ns,
            "boot": self.boot,
            "version": None if self.birth is None else self.birth.version,
            "clock": None if self.alignment is None else {**msgspec.to_builtins(self.alignment), **self.asked},
            "wall_clock": None if self.birth is None else wall_data(self.birth),
            "ports": {} if self.birth is None else dict(ports_data(self.birth)),
            "settings": [] if self.birth is None else settings_data(self.birth),
            "lost": self.lost,
            "rival": self.rival,
            "trouble": self.trouble,
            "spool": None if self.birth is None else spool_data(self.birth),
            "selection": "" if self.birth is None else selection_trouble(self.birth),
        }


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
