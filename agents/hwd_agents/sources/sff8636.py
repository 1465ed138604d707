"""Module memory after SFF-8636 rev 2.11 (QSFP28): the lower page and upper page 00h, 256 bytes, to values and back.

The receiver's loss-of-signal flags (byte 3) are latched: set when a lane lost its light at any time since the read before, cleared by the read, and
set again at once while the light stays away. Received power (bytes 34-41) is the average of a lane in steps of 0.1 uW.
"""

import math
import struct
from dataclasses import dataclass
from typing import Final

from hwd_drivers.kit.errors import ProtocolError

MEMORY_BYTES: Final = 256
LANES: Final = 4

IDENTIFIERS: Final = {0x0C: "QSFP", 0x0D: "QSFP+", 0x11: "QSFP28"}
"""SFF-8024 table 4-1, those whose memory has this layout; CMIS modules (QSFP-DD, OSFP) have another."""

STEP_UW: Final = 0.1
POWER_FLOOR_DBM: Final = -40.0
"""One step, 0.1 uW. Zero steps is no light that can be told."""

_FLAGS_LOS: Final = 3
_TEMPERATURE: Final = 22
_RX_POWER: Final = 34
_TX_POWER: Final = 50
_UPPER_IDENTIFIER: Final = 128
_TECHNOLOGY: Final = 147
_VENDOR: Final = slice(148, 164)
_PART: Final = slice(168, 184)
_REVISION: Final = slice(184, 186)
_SERIAL: Final = slice(196, 212)
_BASE_SUM: Final = 191
_EXTENDED_SUM: Final = 223
_COPPER_FROM: Final = 0x0A  # upper half of byte 147: 0xA to 0xF are copper cables


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleMemory:
    """What the memory of a module says. Powers are per lane, None where there is no light that can be told.

    `rx_los`: for each lane, whether its light was lost at any time since the read before.
    """

    identifier: int
    vendor: str
    part: str
    revision: str
    serial: str
    copper: bool
    temperature_c: float
    rx_los: tuple[bool, ...]
    rx_power_dbm: tuple[float | None, ...]
    tx_power_dbm: tuple[float | None, ...]

    def __str__(self) -> str:
        return f"{self.vendor} {self.part} serial {self.serial} ({IDENTIFIERS[self.identifier]})"


def parse_memory(memory: bytes) -> ModuleMemory:
    """Raises ProtocolError where this is not the memory of an SFF-8636 module with sound check sums."""
    if len(memory) != MEMORY_BYTES:
        raise ProtocolError(
            f"module memory: {len(memory)} bytes, SFF-8636 has {MEMORY_BYTES} in its lower page and upper page 00h"
        )
    identifier = memory[0]
    if identifier not in IDENTIFIERS:
        known = ", ".join(f"{IDENTIFIERS[one]} {one:#04x}" for one in IDENTIFIERS)
        raise ProtocolError(f"module memory: identifier {identifier:#04x} is not an SFF-8636 module ({known})")
    if memory[_UPPER_IDENTIFIER] != identifier:
        raise ProtocolError(
            f"module memory: identifier {identifier:#04x} at byte 0 but {memory[_UPPER_IDENTIFIER]:#04x} at byte 128: not upper page 00h"
        )
    for position, start in ((_BASE_SUM, 128), (_EXTENDED_SUM, 192)):
        if (counted := sum(memory[start:position]) & 0xFF) != memory[position]:
            raise ProtocolError(
                f"module memory: check sum at byte {position} is {memory[position]:#04x}, bytes {start}-{position - 1} add up to {counted:#04x}"
            )
    (temperature,) = struct.unpack_from(">h", memory, _TEMPERATURE)
    flags = memory[_FLAGS_LOS]
    return ModuleMemory(
        identifier=identifier,
        vendor=_text(memory[_VENDOR]),
        part=_text(memory[_PART]),
        revision=_text(memory[_REVISION]),
        serial=_text(memory[_SERIAL]),
        copper=memory[_TECHNOLOGY] >> 4 >= _COPPER_FROM,
        temperature_c=temperature / 256,
        rx_los=tuple(bool(flags >> lane & 1) for lane in range(LANES)),
        rx_power_dbm=_powers(memory, _RX_POWER),
        tx_power_dbm=_powers(memory, _TX_POWER),
    )


def build_memory(
    *,
    vendor: str,
    part: str,
    serial: str,
    rx_power_dbm: tuple[float | None, ...],
    tx_power_dbm: tuple[float | None, ...],
    rx_los: tuple[bool, ...],
    revision: str = "A0",
    identifier: int = 0x11,
    temperature_c: float = 35.0,
    technology: int = 0x40,
) -> bytes:
    """The memory of a module as a twin shows it; `technology` 0x40 is a 1310 nm DFB laser. Lanes that are not given are dark and without flags."""
    memory = bytearray(MEMORY_BYTES)
    memory[0] = memory[_UPPER_IDENTIFIER] = identifier
    memory[1] = 0x08  # revision compliance: SFF-8636 rev 2.8 or later
    memory[2] = 0x02  # flat memory off, no interrupt, data ready
    memory[_FLAGS_LOS] = sum(1 << lane for lane, lost in enumerate(rx_los[:LANES]) if lost)
    struct.pack_into(">h", memory, _TEMPERATURE, round(temperature_c * 256))
    for start, powers in ((_RX_POWER, rx_power_dbm), (_TX_POWER, tx_power_dbm)):
        for lane, power_dbm in enumerate(powers[:LANES]):
            struct.pack_into(">H", memory, start + 2 * lane, _steps(power_dbm))
    memory[_TECHNOLOGY] = technology
    for place, words in ((_VENDOR, vendor), (_PART, part), (_REVISION, revision), (_SERIAL, serial)):
        width = place.stop - place.start
        memory[place] = words.encode("ascii", "replace")[:width].ljust(width)
    memory[_BASE_SUM] = sum(memory[128:_BASE_SUM]) & 0xFF
    memory[_EXTENDED_SUM] = sum(memory[192:_EXTENDED_SUM]) & 0xFF
    return bytes(memory)


def _powers(memory: bytes, start: int) -> tuple[float | None, ...]:
    return tuple(_power_dbm(steps) for steps in struct.unpack_from(f">{LANES}H", memory, start))


def _power_dbm(steps: int) -> float | None:
    return 10 * math.log10(steps * STEP_UW / 1000) if steps else None


def _steps(power_dbm: float | None) -> int:
    if power_dbm is None:
        return 0
    return min(0xFFFF, round(10 ** (power_dbm / 10) * 1000 / STEP_UW))


def _text(raw: bytes) -> str:
    return "".join(character if " " <= character <= "~" else "?" for character in raw.decode("latin-1")).strip()
