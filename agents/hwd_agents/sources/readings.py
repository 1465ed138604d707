"""What watchers read through: one Protocol for each thing that a host can show. Kernel and twin host implement them alike.

Stamps are `Clock.monotonic_ns` of the host. A source that cannot see something says so in its `note`, and is then never asked.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from hwd_agents.wire import SourceNote


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleReading:
    """Bytes of a module's memory in the real layout, as the parser of its standard takes them (`module_memory.Layout`), its monitors read between the stamps."""

    interface: str
    memory: bytes
    before_ns: int
    after_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReading:
    """The text of a sysfs-like file, as it stood between the two stamps; None where there is no such file."""

    path: str
    text: str | None
    before_ns: int
    after_ns: int


class ModuleSource(Protocol):
    """Module EEPROM."""

    note: SourceNote

    async def read_module(self, interface: str) -> ModuleReading: ...


class FileSource(Protocol):
    """Files under /sys that tell RDMA port state (`class/infiniband/<dev>/ports/1/state`) and GIDs."""

    note: SourceNote

    async def read_file(self, path: str) -> FileReading: ...


class PhySource(Protocol):
    """The NIC's own PHY state; `on_change(interface, up, earliest_ns, at_ns)`. `polled`: it looks now and then, and tells what it finds each time."""

    note: SourceNote
    polled: bool

    async def open_phy(self, on_change: Callable[[str, bool, int, int], None], on_note: Callable[[], None]) -> None:
        """Tell; may last until it is cancelled. `on_note`: some `why_not` changed."""
        ...

    def observe(self, interface: str, on: bool) -> None:
        """Look often, or seldom, where it polls."""
        ...

    def why_not(self, interface: str) -> str:
        """Why nothing can be told of one PHY; empty where something can."""
        ...
