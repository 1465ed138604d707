"""ModuleMemory: the values in the memory of a pluggable module, and what the parsers of all three standards share."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hwd_agents.wire import ThresholdNote
from hwd_drivers.core.errors import ProtocolError

HALF_PAGE_BYTES: Final = 128
"""Memory is read in halves of a page: 0 to 127, and 128 to 255 of the page that is selected."""
A0H: Final = 0x50
A2H: Final = 0x51
"""Addresses on the I2C bus, in seven bits; in eight, as the standards write them, A0h and A2h."""

COPPER_FROM: Final = 0x0A
COPPER_TO: Final = 0x0F
"""Transmitter technologies that are copper cables, SFF-8636 table 6-19 and CMIS table 8-36."""


class Los(StrEnum):
    """How a module reports loss of signal."""

    LATCHED = "latched"
    """As a latched flag: a loss sets it, the read clears it. The module sets it again while the light is away, after a
    delay of its own. It shows losses between two reads.
    """
    STATE = "state"
    """As the state at the moment of the read. It does not show what happened between two reads."""
    NONE = "none"
    """Not at all; received power is used instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The bytes of one read: from `offset` (0 to 255) of a page of the memory at `address`.

    They go to offset `place` of the bytes that a parser takes. `bank`: of the page, where the page has banks.
    `optional`: a module, or its driver, may not have these bytes; then they stay zero.
    """

    offset: int
    length: int
    place: int
    page: int = 0
    bank: int = 0
    address: int = A0H
    optional: bool = False

    def __str__(self) -> str:
        bank = f" bank {self.bank}" if self.bank else ""
        which = f"{2 * self.address:02X}h, page {self.page:02X}h{bank}"
        return f"bytes {self.offset}-{self.offset + self.length - 1} of {which}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The layout of what is read of a module. `static` identifies it and is constant; `monitors` is read each time.

    A parser takes `size` bytes; those that a module does not have are zero.
    """

    standard: str
    size: int
    static: tuple[Span, ...]
    monitors: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleMemory:
    """The values in a module's memory. Powers and bias are per lane.

    A power is None when it is too low to measure, a bias when the module does not measure it. `thresholds`: at which
    the module itself warns; None when they were not read or it has none. `rx_los`: for each lane, whether its light is
    lost, or was lost at any time since the previous read: `los` says which of the two. `rx_measured`: whether the
    module measures received power.
    """

    standard: str
    vendor: str
    part: str
    revision: str
    serial: str
    copper: bool
    temperature_c: float | None
    los: Los
    rx_los: tuple[bool, ...]
    rx_measured: bool
    rx_power_dbm: tuple[float | None, ...]
    tx_power_dbm: tuple[float | None, ...]
    bias_ma: tuple[float | None, ...]
    thresholds: ThresholdNote | None = None

    def __str__(self) -> str:
        return f"{self.vendor} {self.part} serial {self.serial} ({self.standard})"


def text(raw: bytes) -> str:
    """A padded field of ASCII; each byte that is not ASCII becomes a question mark."""
    return "".join(character if " " <= character <= "~" else "?" for character in raw.decode("latin-1")).strip()


def check_sum(memory: bytes, start: int, position: int, *, named: str = "") -> None:
    """Raises ProtocolError unless the byte at `position` is the low byte of the sum of those from `start` up to it."""
    if (counted := sum(memory[start:position]) & 0xFF) != memory[position]:
        raise ProtocolError(
            f"module memory: checksum at byte {named or position} is {memory[position]:#04x}, the bytes from {start} "
            f"on add up to {counted:#04x}: the read was incomplete, or the memory was never written correctly. "
            "Unplug the module and plug it in again; if the error stays, try it in another port"
        )


def check_size(memory: bytes, layout: Layout) -> None:
    """Raises ProtocolError unless `memory` has the size of the layout."""
    if len(memory) != layout.size:
        raise ProtocolError(f"module memory: {len(memory)} bytes, where {layout.standard} has {layout.size}")
