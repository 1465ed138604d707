"""Protocols that watchers read through, one per kind of source; a kernel and a twin host implement them alike.

Stamps are `Clock.monotonic_ns` of the host. A source that cannot see something says so in its `note`; it is never
asked.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from hwd_agents.wire import SourceNote


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleReading:
    """Bytes of a module's memory, as the parser of its standard takes them (`module_memory.Layout`).

    Its monitors were read between the stamps.
    """

    interface: str
    memory: bytes
    before_ns: int
    after_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReading:
    """The text of a sysfs-like file, read between the two stamps; None when there is no such file."""

    path: str
    text: str | None
    before_ns: int
    after_ns: int


class ModuleSource(Protocol):
    """Module EEPROM."""

    note: SourceNote

    async def read_module(self, interface: str) -> ModuleReading: ...


class FileSource(Protocol):
    """Files under /sys with the state of RDMA ports (`class/infiniband/<dev>/ports/1/state`) and GIDs."""

    note: SourceNote

    async def read_file(self, path: str) -> FileReading: ...


class PhySource(Protocol):
    """The NIC's own PHY state, by `on_change(interface, up, earliest_ns, at_ns)`.

    `polled`: the source reads it at intervals, and reports each reading.
    """

    note: SourceNote
    polled: bool

    async def open_phy(self, on_change: Callable[[str, bool, int, int], None], on_note: Callable[[], None]) -> None:
        """Report until cancelled, or return at once. `on_note`: some `why_not` has changed."""
        ...

    def observe(self, interface: str, on: bool) -> None:
        """Read more often or less often, if the source polls."""
        ...

    def why_not(self, interface: str) -> str:
        """Why one PHY cannot be seen; empty when it can."""
        ...
