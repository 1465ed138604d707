"""Module memory after OIF-CMIS 5.2 (QSFP-DD, OSFP): the lower page and the upper pages 00h, 01h and 11h, as many bytes of each as it needs, to values.

The receiver's loss-of-signal flags (page 11h byte 147) are latched and cleared by the read. Powers are in steps of 0.1 uW, bias in steps of 2 uA times
the multiplier of page 01h byte 160. Which of them a module has it says in page 01h (bytes 157-160). Only bank 0 is read: lanes 1 to 8.
"""

import struct
from dataclasses import replace
from typing import Final

from hwd_drivers.kit.errors import ProtocolError

from .module_memory import (
    BIAS_STEP_MA,
    COPPER_FROM,
    COPPER_TO,
    TEMPERATURE_STEPS,
    Layout,
    Los,
    ModuleMemory,
    Span,
    check_size,
    check_sum,
    power_dbm,
    text,
)

LANES: Final = 8
IDENTIFIERS: Final = {
    0x18: "QSFP-DD",
    0x19: "OSFP",
    0x1E: "QSFP with CMIS",
    0x1F: "SFP-DD with CMIS",
    0x20: "SFP with CMIS",
}
"""SFF-8024 table 4-1, those whose memory has this layout."""

_PAGE_00H: Final = 128
_PAGE_01H: Final = 256
_PAGE_11H: Final = 384
_LANE_FROM: Final = 147  # loss of signal; the powers and the bias follow
_LANE_BYTES: Final = 202 - _LANE_FROM

LAYOUT: Final = Layout(
    standard="CMIS",
    size=_PAGE_11H + _LANE_FROM - 128 + _LANE_BYTES,
    static=(Span(offset=128, length=128, place=_PAGE_00H), Span(offset=128, length=128, place=_PAGE_01H, page=0x01)),
    monitors=(
        Span(offset=0, length=16, place=0),
        Span(offset=_LANE_FROM, length=_LANE_BYTES, place=_PAGE_11H + _LANE_FROM - 128, page=0x11),
    ),
)
LAYOUT_FLAT: Final = replace(LAYOUT, static=LAYOUT.static[:1], monitors=LAYOUT.monitors[:1])
"""Of a cable without monitors: it has no pages but 00h."""

_MEMORY_MODEL: Final = 2
_FLAT: Final = 0x80
_TEMPERATURE: Final = 14


def _at(page: int, byte: int) -> int:
    """Where byte 128-255 of a page stands in what the parser takes."""
    return page + byte - 128


_VENDOR: Final = slice(_at(_PAGE_00H, 129), _at(_PAGE_00H, 145))
_PART: Final = slice(_at(_PAGE_00H, 148), _at(_PAGE_00H, 164))
_REVISION: Final = slice(_at(_PAGE_00H, 164), _at(_PAGE_00H, 166))
_SERIAL: Final = slice(_at(_PAGE_00H, 166), _at(_PAGE_00H, 182))
_TECHNOLOGY: Final = _at(_PAGE_00H, 212)
_SUM_00H: Final = _at(_PAGE_00H, 222)
_RX_FLAGS: Final = _at(_PAGE_01H, 158)
_HAS_LOS: Final = 0x02
_HAS_MODULE: Final = _at(_PAGE_01H, 159)
_HAS_TEMPERATURE: Final = 0x01
_HAS_LANE: Final = _at(_PAGE_01H, 160)
_HAS_BIAS, _HAS_TX, _HAS_RX = 0x01, 0x02, 0x04
_MULTIPLIERS: Final = {0: 1, 1: 2, 2: 4}  # bits 4-3; 3 is reserved
_SUM_01H: Final = _at(_PAGE_01H, 255)
_SUMMED_01H: Final = _at(_PAGE_01H, 130)
_LOS: Final = _at(_PAGE_11H, 147)
_TX_POWER: Final = _at(_PAGE_11H, 154)
_BIAS: Final = _at(_PAGE_11H, 170)
_RX_POWER: Final = _at(_PAGE_11H, 186)


def is_flat(lower: bytes) -> bool:
    """Whether a module with these first bytes has no pages but 00h: a cable without monitors."""
    return bool(lower[_MEMORY_MODEL] & _FLAT)


def parse_memory(memory: bytes) -> ModuleMemory:
    """Raises ProtocolError where this is not the memory of a CMIS module with sound check sums, or where nothing measures its light."""
    check_size(memory, LAYOUT)
    identifier = memory[0]
    if identifier not in IDENTIFIERS:
        known = ", ".join(f"{IDENTIFIERS[one]} {one:#04x}" for one in IDENTIFIERS)
        raise ProtocolError(f"module memory: identifier {identifier:#04x} is not a CMIS module ({known})")
    if memory[_PAGE_00H] != identifier:
        raise ProtocolError(
            f"module memory: identifier {identifier:#04x} at byte 0 but {memory[_PAGE_00H]:#04x} at byte 128: not upper page 00h"
        )
    check_sum(memory, _PAGE_00H, _SUM_00H, named="222 of page 00h")
    vendor, part = text(memory[_VENDOR]), text(memory[_PART])
    copper = COPPER_FROM <= memory[_TECHNOLOGY] <= COPPER_TO
    flat = is_flat(memory)
    if not flat:
        check_sum(memory, _SUMMED_01H, _SUM_01H, named="255 of page 01h")
    has = 0 if flat else memory[_HAS_LANE]
    has_los = not flat and bool(memory[_RX_FLAGS] & _HAS_LOS)
    if not copper and not has & _HAS_RX and not has_los:
        raise ProtocolError(
            f"module {vendor} {part}: nothing measures its light (CMIS: page 01h tells of no Rx power and no Rx LOS flag)"
        )
    (temperature,) = struct.unpack_from(">h", memory, _TEMPERATURE)
    multiplier = _MULTIPLIERS.get(has >> 3 & 0b11)
    biases = _words(memory, _BIAS) if has & _HAS_BIAS and multiplier is not None else (None,) * LANES
    return ModuleMemory(
        standard=LAYOUT.standard,
        vendor=vendor,
        part=part,
        revision=text(memory[_REVISION]),
        serial=text(memory[_SERIAL]),
        copper=copper,
        temperature_c=temperature / TEMPERATURE_STEPS if not flat and memory[_HAS_MODULE] & _HAS_TEMPERATURE else None,
        los=Los.LATCHED if has_los else Los.NONE,
        rx_los=tuple(has_los and bool(memory[_LOS] >> lane & 1) for lane in range(LANES)),
        rx_measured=bool(has & _HAS_RX),
        rx_power_dbm=_powers(memory, _RX_POWER) if has & _HAS_RX else (None,) * LANES,
        tx_power_dbm=_powers(memory, _TX_POWER) if has & _HAS_TX else (None,) * LANES,
        bias_ma=tuple(None if steps is None else steps * BIAS_STEP_MA * (multiplier or 1) for steps in biases),
    )


def _words(memory: bytes, start: int) -> tuple[int, ...]:
    return struct.unpack_from(f">{LANES}H", memory, start)


def _powers(memory: bytes, start: int) -> tuple[float | None, ...]:
    return tuple(power_dbm(steps) for steps in _words(memory, start))
