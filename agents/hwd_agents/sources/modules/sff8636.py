"""Parse and build module memory after SFF-8636 rev 2.11 (QSFP28): the lower page, page 00h, thresholds of page 03h.

The receiver's loss-of-signal flags (byte 3) are latched. A flag is set when a lane lost its light at any time since the
previous read; the read clears it, and it is set again at once while the light is away. Received power (bytes 34-41) is
the average of a lane in steps of 0.1 uW, bias (42-49) in steps of 2 uA. Page 03h is optional and has no checksum. A
module without it returns page 00h in its place (section 6.1, page select), or its driver refuses the read; then there
are no thresholds.
"""

import struct
from dataclasses import replace
from typing import Final

from hwd_agents.wire import ThresholdNote
from hwd_drivers.core.errors import ProtocolError

from .module_memory import (
    COPPER_FROM,
    COPPER_TO,
    Layout,
    Los,
    ModuleMemory,
    Span,
    check_size,
    check_sum,
    text,
)
from .quantities import BIAS_STEP_MA, TEMPERATURE_STEPS, power_dbm, power_steps
from .thresholds import parse_thresholds

PAGE_03H: Final = 256
"""The offset of page 03h in the bytes that the parser takes."""
THRESHOLD_BYTES: Final = 72
"""Bytes 128-199 of page 03h (table 6-33): temperature, supply voltage, received power, bias, transmitted power."""
MEMORY_BYTES: Final = PAGE_03H + THRESHOLD_BYTES
LANES: Final = 4

IDENTIFIERS: Final = {0x0C: "QSFP", 0x0D: "QSFP+", 0x11: "QSFP28"}
"""SFF-8024 table 4-1: the identifiers of modules with this layout. CMIS modules (QSFP-DD, OSFP) have another."""

LAYOUT: Final = Layout(
    standard="SFF-8636",
    size=MEMORY_BYTES,
    static=(
        Span(offset=128, length=128, place=128),
        Span(offset=128, length=THRESHOLD_BYTES, place=PAGE_03H, page=0x03, optional=True),
    ),
    monitors=(Span(offset=0, length=58, place=0),),  # to the end of the transmitted powers
)
LAYOUT_FLAT: Final = replace(LAYOUT, static=LAYOUT.static[:1])
"""The layout of a module that has page 00h only."""

_STATUS: Final = 2
_FLAT: Final = 0x04

_FLAGS_LOS: Final = 3
_TEMPERATURE: Final = 22
_RX_POWER: Final = 34
_BIAS: Final = 42
_TX_POWER: Final = 50
_UPPER_IDENTIFIER: Final = 128
_TECHNOLOGY: Final = 147
_VENDOR: Final = slice(148, 164)
_PART: Final = slice(168, 184)
_REVISION: Final = slice(184, 186)
_SERIAL: Final = slice(196, 212)
_BASE_SUM: Final = 191
_EXTENDED_SUM: Final = 223
_THRESHOLDS: Final = {
    "temperature": PAGE_03H + 128 - 128,
    "rx_power": PAGE_03H + 176 - 128,
    "bias": PAGE_03H + 184 - 128,
    "tx_power": PAGE_03H + 192 - 128,
}


def is_flat(head: bytes) -> bool:
    """Whether a module with these first bytes has page 00h only."""
    return bool(head[_STATUS] & _FLAT)


def parse_memory(memory: bytes) -> ModuleMemory:
    """Raises ProtocolError when this is not an SFF-8636 memory with valid checksums."""
    check_size(memory, LAYOUT)
    identifier = memory[0]
    if identifier not in IDENTIFIERS:
        known = ", ".join(f"{IDENTIFIERS[one]} {one:#04x}" for one in IDENTIFIERS)
        raise ProtocolError(f"module memory: identifier {identifier:#04x} is not an SFF-8636 module ({known})")
    if memory[_UPPER_IDENTIFIER] != identifier:
        raise ProtocolError(
            f"module memory: identifier {identifier:#04x} at byte 0 but {memory[_UPPER_IDENTIFIER]:#04x} at byte 128: "
            "not upper page 00h"
        )
    check_sum(memory, _UPPER_IDENTIFIER, _BASE_SUM)
    check_sum(memory, _BASE_SUM + 1, _EXTENDED_SUM)
    (temperature,) = struct.unpack_from(">h", memory, _TEMPERATURE)
    flags = memory[_FLAGS_LOS]
    return ModuleMemory(
        standard=LAYOUT.standard,
        vendor=text(memory[_VENDOR]),
        part=text(memory[_PART]),
        revision=text(memory[_REVISION]),
        serial=text(memory[_SERIAL]),
        copper=COPPER_FROM <= memory[_TECHNOLOGY] >> 4 <= COPPER_TO,
        temperature_c=temperature / TEMPERATURE_STEPS,
        los=Los.LATCHED,
        rx_los=tuple(bool(flags >> lane & 1) for lane in range(LANES)),
        rx_measured=True,
        rx_power_dbm=tuple(power_dbm(steps) for steps in _words(memory, _RX_POWER)),
        tx_power_dbm=tuple(power_dbm(steps) for steps in _words(memory, _TX_POWER)),
        bias_ma=tuple(steps * BIAS_STEP_MA for steps in _words(memory, _BIAS)),
        thresholds=_thresholds(memory),
    )


def build_memory(
    *,
    vendor: str,
    part: str,
    serial: str,
    rx_power_dbm: tuple[float | None, ...],
    tx_power_dbm: tuple[float | None, ...],
    rx_los: tuple[bool, ...],
    bias_ma: tuple[float, ...] = (),
    revision: str = "A0",
    identifier: int = 0x11,
    temperature_c: float = 35.0,
    technology: int = 0x40,
) -> bytes:
    """The memory of a module as a twin simulates it, without thresholds.

    Lanes that are not named are dark and without flags. `technology` 0x40 is a 1310 nm DFB laser.
    """
    memory = bytearray(MEMORY_BYTES)
    memory[0] = memory[_UPPER_IDENTIFIER] = identifier
    memory[1] = 0x08  # revision compliance: SFF-8636 rev 2.8 or later
    memory[2] = 0x02  # flat memory off, no interrupt, data ready
    memory[_FLAGS_LOS] = sum(1 << lane for lane, lost in enumerate(rx_los[:LANES]) if lost)
    struct.pack_into(">h", memory, _TEMPERATURE, round(temperature_c * TEMPERATURE_STEPS))
    for start, powers in ((_RX_POWER, rx_power_dbm), (_TX_POWER, tx_power_dbm)):
        for lane, power in enumerate(powers[:LANES]):
            struct.pack_into(">H", memory, start + 2 * lane, power_steps(power))
    for lane, bias in enumerate(bias_ma[:LANES]):
        struct.pack_into(">H", memory, _BIAS + 2 * lane, round(bias / BIAS_STEP_MA))
    memory[_TECHNOLOGY] = technology
    for place, words in ((_VENDOR, vendor), (_PART, part), (_REVISION, revision), (_SERIAL, serial)):
        width = place.stop - place.start
        memory[place] = words.encode("ascii", "replace")[:width].ljust(width)
    memory[_BASE_SUM] = sum(memory[_UPPER_IDENTIFIER:_BASE_SUM]) & 0xFF
    memory[_EXTENDED_SUM] = sum(memory[_BASE_SUM + 1 : _EXTENDED_SUM]) & 0xFF
    return bytes(memory)


def _thresholds(memory: bytes) -> ThresholdNote | None:
    """Read the thresholds; None when page 03h was not read, or when page 00h, or zeros, came in its place."""
    page = memory[PAGE_03H:]
    if (
        is_flat(memory)
        or page == memory[_UPPER_IDENTIFIER : _UPPER_IDENTIFIER + THRESHOLD_BYTES]
        or set(page) == {0xFF}
    ):
        return None
    return parse_thresholds(memory, **_THRESHOLDS)


def _words(memory: bytes, start: int) -> tuple[int, ...]:
    return struct.unpack_from(f">{LANES}H", memory, start)
