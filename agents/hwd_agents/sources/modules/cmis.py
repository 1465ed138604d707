"""Parse and build module memory after OIF-CMIS 5.2 (QSFP-DD, OSFP): the lower page, pages 00h, 01h, 02h and 11h.

The receiver's loss-of-signal flags (page 11h byte 147) are latched and cleared by the read. Powers are in steps of
0.1 uW. Bias is in steps of 2 uA times the multiplier of page 01h byte 160. Page 01h also says which of these the module
measures (bytes 157-160) and how many banks of eight lanes it has (byte 142). Page 02h holds the thresholds; it is
optional, because some modules and drivers do not provide it.
"""

import struct
from collections.abc import Sequence
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

BANK_LANES: Final = 8
IDENTIFIERS: Final = {
    0x18: "QSFP-DD",
    0x19: "OSFP",
    0x1E: "QSFP with CMIS",
    0x1F: "SFP-DD with CMIS",
    0x20: "SFP with CMIS",
}
"""SFF-8024 table 4-1: the identifiers of modules with this layout."""

_PAGE_00H: Final = 128
_PAGE_01H: Final = 256
_PAGE_02H: Final = 384
_BANKS_FROM: Final = 512
_LANE_FROM: Final = 147  # of page 11h: loss of signal; the powers and the bias follow
_LANE_BYTES: Final = 202 - _LANE_FROM
_BANKS: Final = {0: 1, 1: 2, 2: 4}
"""The number of banks by bits 1-0 of page 01h byte 142; 3 is reserved."""

IDENTITY: Final = Span(offset=128, length=128, place=_PAGE_01H, page=0x01)
"""The byte that states the number of banks."""


def _layout(banks: int) -> Layout:
    return Layout(
        standard="CMIS",
        size=_BANKS_FROM + banks * _LANE_BYTES,
        static=(
            Span(offset=128, length=128, place=_PAGE_00H),
            IDENTITY,
            Span(offset=128, length=128, place=_PAGE_02H, page=0x02, optional=True),
        ),
        monitors=(
            Span(offset=0, length=16, place=0),
            *(
                Span(
                    offset=_LANE_FROM,
                    length=_LANE_BYTES,
                    place=_BANKS_FROM + bank * _LANE_BYTES,
                    page=0x11,
                    bank=bank,
                )
                for bank in range(banks)
            ),
        ),
    )


_LAYOUTS: Final = {banks: _layout(banks) for banks in _BANKS.values()}
LAYOUT: Final = _LAYOUTS[1]
LAYOUT_FLAT: Final = replace(LAYOUT, static=LAYOUT.static[:1], monitors=LAYOUT.monitors[:1])
"""The layout of a cable without monitors: it has page 00h only."""

_MEMORY_MODEL: Final = 2
_FLAT: Final = 0x80
_TEMPERATURE: Final = 14


def _at(page: int, byte: int) -> int:
    """The offset of byte 128-255 of a page in the bytes that the parser takes."""
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
_SUPPORTED: Final = _at(_PAGE_01H, 142)
_SUMMED_02H, _SUM_02H = _at(_PAGE_02H, 128), _at(_PAGE_02H, 255)
_THRESHOLDS: Final = {
    "temperature": _at(_PAGE_02H, 128),
    "tx_power": _at(_PAGE_02H, 176),
    "bias": _at(_PAGE_02H, 184),
    "rx_power": _at(_PAGE_02H, 192),
}
_LOS, _TX_POWER, _BIAS, _RX_POWER = (byte - _LANE_FROM for byte in (147, 154, 170, 186))
"""Offsets within the bytes that are read of a bank's page 11h."""


def is_flat(lower: bytes) -> bool:
    """Whether a module with these first bytes has page 00h only: a cable without monitors."""
    return bool(lower[_MEMORY_MODEL] & _FLAT)


def layout_of(page_01h: bytes) -> Layout:
    """The layout for this page 01h. Raises ProtocolError when its number of banks is invalid."""
    supported = page_01h[_SUPPORTED - _PAGE_01H] & 0b11
    if supported not in _BANKS:
        raise ProtocolError("module memory: byte 142 of page 01h names 3 as the number of banks, which CMIS reserves")
    return _LAYOUTS[_BANKS[supported]]


def parse_memory(memory: bytes) -> ModuleMemory:
    """Raises ProtocolError when this is no CMIS memory with valid checksums, or the module does not measure light."""
    if len(memory) < LAYOUT.size:
        check_size(memory, LAYOUT)
    identifier = memory[0]
    if identifier not in IDENTIFIERS:
        known = ", ".join(f"{IDENTIFIERS[one]} {one:#04x}" for one in IDENTIFIERS)
        raise ProtocolError(f"module memory: identifier {identifier:#04x} is not a CMIS module ({known})")
    if memory[_PAGE_00H] != identifier:
        raise ProtocolError(
            f"module memory: identifier {identifier:#04x} at byte 0 but {memory[_PAGE_00H]:#04x} at byte 128: "
            "not upper page 00h"
        )
    check_sum(memory, _PAGE_00H, _SUM_00H, named="222 of page 00h")
    vendor, part = text(memory[_VENDOR]), text(memory[_PART])
    copper = COPPER_FROM <= memory[_TECHNOLOGY] <= COPPER_TO
    flat = is_flat(memory)
    if not flat:
        check_sum(memory, _SUMMED_01H, _SUM_01H, named="255 of page 01h")
    layout = LAYOUT if flat else layout_of(memory[_PAGE_01H:_PAGE_02H])
    check_size(memory, layout)
    banks = [memory[at : at + _LANE_BYTES] for at in range(_BANKS_FROM, layout.size, _LANE_BYTES)]
    has = 0 if flat else memory[_HAS_LANE]
    has_los = not flat and bool(memory[_RX_FLAGS] & _HAS_LOS)
    if not copper and not has & _HAS_RX and not has_los:
        raise ProtocolError(
            f"module {vendor} {part}: it does not measure its light "
            "(CMIS: page 01h names no Rx power and no Rx LOS flag)"
        )
    (temperature,) = struct.unpack_from(">h", memory, _TEMPERATURE)
    multiplier = _MULTIPLIERS.get(has >> 3 & 0b11)
    has_bias = bool(has & _HAS_BIAS) and multiplier is not None
    nothing = (None,) * BANK_LANES * len(banks)
    return ModuleMemory(
        standard=LAYOUT.standard,
        vendor=vendor,
        part=part,
        revision=text(memory[_REVISION]),
        serial=text(memory[_SERIAL]),
        copper=copper,
        temperature_c=temperature / TEMPERATURE_STEPS if not flat and memory[_HAS_MODULE] & _HAS_TEMPERATURE else None,
        los=Los.LATCHED if has_los else Los.NONE,
        rx_los=tuple(has_los and bool(bank[_LOS] >> lane & 1) for bank in banks for lane in range(BANK_LANES)),
        rx_measured=bool(has & _HAS_RX),
        rx_power_dbm=_powers(banks, _RX_POWER) if has & _HAS_RX else nothing,
        tx_power_dbm=_powers(banks, _TX_POWER) if has & _HAS_TX else nothing,
        bias_ma=tuple(steps * BIAS_STEP_MA * (multiplier or 1) for steps in _words(banks, _BIAS))
        if has_bias
        else nothing,
        thresholds=None if flat else _thresholds(memory, multiplier or 1),
    )


def build_memory(
    *,
    vendor: str,
    part: str,
    serial: str,
    rx_power_dbm: Sequence[float | None],
    tx_power_dbm: Sequence[float | None],
    rx_los: Sequence[bool],
    bias_ma: Sequence[float] = (),
    revision: str = "A0",
    identifier: int = 0x18,
    temperature_c: float = 35.0,
    technology: int = 0x04,
) -> bytes:
    """The memory of a module as a twin simulates it, without thresholds, with as many banks as its lanes need.

    `technology` 0x04 is a 1310 nm DFB laser.
    """
    banks = next(number for number in _BANKS.values() if number * BANK_LANES >= len(rx_power_dbm))
    memory = bytearray(_LAYOUTS[banks].size)
    memory[0] = memory[_PAGE_00H] = identifier
    memory[1] = 0x52  # revision 5.2
    struct.pack_into(">h", memory, _TEMPERATURE, round(temperature_c * TEMPERATURE_STEPS))
    for place, words in ((_VENDOR, vendor), (_PART, part), (_REVISION, revision), (_SERIAL, serial)):
        width = place.stop - place.start
        memory[place] = words.encode("ascii", "replace")[:width].ljust(width)
    memory[_TECHNOLOGY] = technology
    memory[_SUM_00H] = sum(memory[_PAGE_00H:_SUM_00H]) & 0xFF
    memory[_SUPPORTED] = next(bits for bits, number in _BANKS.items() if number == banks)
    memory[_RX_FLAGS], memory[_HAS_MODULE] = _HAS_LOS, _HAS_TEMPERATURE
    memory[_HAS_LANE] = _HAS_BIAS | _HAS_TX | _HAS_RX
    memory[_SUM_01H] = sum(memory[_SUMMED_01H:_SUM_01H]) & 0xFF
    for lane in range(len(rx_power_dbm)):
        at, number = _BANKS_FROM + lane // BANK_LANES * _LANE_BYTES, lane % BANK_LANES
        memory[at + _LOS] |= rx_los[lane] << number
        values = (
            (_RX_POWER, power_steps(rx_power_dbm[lane])),
            (_TX_POWER, power_steps(tx_power_dbm[lane])),
            (_BIAS, round(bias_ma[lane] / BIAS_STEP_MA) if bias_ma else 0),
        )
        for start, steps in values:
            struct.pack_into(">H", memory, at + start + 2 * number, steps)
    return bytes(memory)


def _thresholds(memory: bytes, multiplier: int) -> ThresholdNote | None:
    """Read the thresholds; None when page 02h was not read or its checksum is wrong: no other value depends on it."""
    if sum(memory[_SUMMED_02H:_SUM_02H]) & 0xFF != memory[_SUM_02H]:
        return None
    return parse_thresholds(memory, multiplier=multiplier, **_THRESHOLDS)


def _words(banks: Sequence[bytes], start: int) -> list[int]:
    return [steps for bank in banks for steps in struct.unpack_from(f">{BANK_LANES}H", bank, start)]


def _powers(banks: Sequence[bytes], start: int) -> tuple[float | None, ...]:
    return tuple(power_dbm(steps) for steps in _words(banks, start))
