"""PerPort: the watchers of one source, one for each port that it can see."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from typing_extensions import override


class Watcher(Protocol):
    """Watches one port, or more."""

    async def run(self) -> None:
        """Watch until cancelled."""
        ...


W = TypeVar("W", bound=Watcher)


@dataclass(frozen=True, slots=True)
class PerPort(Mapping[str, W]):
    """The watchers of the ports, by name; empty where the host has no such source. `name`: of their tasks."""

    name: str
    watchers: Mapping[str, W] = field(default_factory=dict)

    async def run(self) -> None:
        """Run all until cancelled."""
        async with asyncio.TaskGroup() as group:
            for port, watcher in self.watchers.items():
                group.create_task(watcher.run(), name=f"hwd:{self.name}/{port}")

    @override
    def __getitem__(self, port: str) -> W:
        return self.watchers[port]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self.watchers)

    @override
    def __len__(self) -> int:
        return len(self.watchers)
