"""ModuleMemory: what the memory of a pluggable module says, whatever standard lays it out, and what the three standards have in common."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hwd_drivers.core.errors import ProtocolError

from .thresholds import Thresholds

HALF_PAGE_BYTES: Final = 128
"""Memory is read in halves of a page: 0 to 127, and 128 to 255 of the page that is selected."""
A0H: Final = 0x50
A2H: Final = 0x51
"""Addresses on the I2C bus, in seven bits; in eight, as the standards write them, A0h and A2h."""

COPPER_FROM: Final = 0x0A
COPPER_TO: Final = 0x0F
"""Technologies of a transmitter that are copper cables, SFF-8636 table 6-19 and CMIS table 8-36."""


class Los(StrEnum):
    """What a module's sign for loss of signal is worth."""

    LATCHED = "latched"
    """A flag: set by a loss, cleared by the read, set again while the light stays away, in the module's own time. It tells of losses between two reads."""
    STATE = "state"
    """How it is at the read. What happened between two reads it does not tell."""
    NONE = "none"
    """The module has none; received power judges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Bytes that one read brings: from `offset` (0 to 255) of a page of the memory at `address`, to `place` of the whole that a parser takes.

    `bank`: of the page, where it has some. `optional`: a module, or its driver, may not have it; then those bytes stay zero.
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
    """What of a module is read. `static` tells which module it is and does not change while it is in; `monitors` is read each time.

    A parser takes `size` bytes; those that a module does not have are zero.
    """

    standard: str
    size: int
    static: tuple[Span, ...]
    monitors: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleMemory:
    """What the memory of a module says. Powers and bias are per lane; a power is None where there is no light that can be told, a bias where it is not measured.

    `thresholds`: beyond which the module itself warns; None where they were not read, or it has none. `rx_los`: for each lane, whether its light is lost, or was at any time since the read before: `los` says which of the two. `rx_measured`: whether the
    module has received powers at all.
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
    thresholds: Thresholds | None = None

    def __str__(self) -> str:
        return f"{self.vendor} {self.part} serial {self.serial} ({self.standard})"


def text(raw: bytes) -> str:
    """A padded field of ASCII; what is none is a question mark."""
    return "".join(character if " " <= character <= "~" else "?" for character in raw.decode("latin-1")).strip()


def check_sum(memory: bytes, start: int, position: int, *, named: str = "") -> None:
    """Raises ProtocolError where the byte at `position` is not the low byte of the sum of those from `start` up to it."""
    if (counted := sum(memory[start:position]) & 0xFF) != memory[position]:
        raise ProtocolError(
            f"module memory: check sum at byte {named or position} is {memory[position]:#04x}, the bytes from {start} on add up to "
            f"{counted:#04x}: it was read half, or it was never written well. Plug it in anew; if it stays so, try it in another port"
        )


def check_size(memory: bytes, layout: Layout) -> None:
    """Raises ProtocolError where `memory` is not as long as the layout has it."""
    if len(memory) != layout.size:
        raise ProtocolError(f"module memory: {len(memory)} bytes, where {layout.standard} has {layout.size}")
