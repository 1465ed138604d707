"""Parse and build module memory after SFF-8472 rev 12.4 (SFP+, SFP28): the first halves of A0h and A2h, 256 bytes.

Rx_LOS (A2h byte 110 bit 1) is the state of a pin and not a latch. An internally calibrated module reports powers in
0.1 uW, bias in 2 uA and temperature in 1/256 degree. An externally calibrated one reports raw numbers; its own
constants (A2h bytes 56-91, section 9.3) convert them.
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from hwd_drivers.core.errors import ProtocolError

from .module_memory import (
    A2H,
    HALF_PAGE_BYTES,
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

IDENTIFIERS: Final = {0x03: "SFP, SFP+ or SFP28", 0x0B: "DWDM SFP"}
"""SFF-8024 table 4-1: the identifiers of modules with this layout."""

A2: Final = HALF_PAGE_BYTES
"""The offset of A2h in the bytes that the parser takes."""

LAYOUT: Final = Layout(
    standard="SFF-8472",
    size=2 * HALF_PAGE_BYTES,
    static=(Span(offset=0, length=128, place=0), Span(offset=0, length=96, place=A2, address=A2H)),
    monitors=(Span(offset=96, length=16, place=A2 + 96, address=A2H),),
)
LAYOUT_WITHOUT_A2H: Final = replace(LAYOUT, static=LAYOUT.static[:1], monitors=(Span(offset=0, length=1, place=0),))
"""The layout of a module without monitors: only its identity can be read."""

_CABLE: Final = 8
_CABLE_BITS: Final = 0b1100  # active and passive copper
_VENDOR: Final = slice(20, 36)
_PART: Final = slice(40, 56)
_REVISION: Final = slice(56, 60)
_BASE_SUM: Final = 63
_SERIAL: Final = slice(68, 84)
_DIAGNOSTICS: Final = 92
_HAS_DIAGNOSTICS: Final = 0x40
_INTERNALLY: Final = 0x20
_EXTERNALLY: Final = 0x10
_AVERAGE: Final = 0x08
_CHANGES_ADDRESS: Final = 0x04
_OPTIONS: Final = 93
_HAS_LOS: Final = 0x10
_EXTENDED_SUM: Final = 95

_THRESHOLDS: Final = {"temperature": A2, "bias": A2 + 16, "tx_power": A2 + 24, "rx_power": A2 + 32}  # table 9-5
_RX_CONSTANTS: Final = A2 + 56  # of degree 4 down to 0
_LINES: Final = {"bias": A2 + 76, "tx": A2 + 80, "temperature": A2 + 84}  # slope and offset
_CALIBRATION_SUM: Final = A2 + 95
_TEMPERATURE: Final = A2 + 96
_BIAS: Final = A2 + 100
_TX_POWER: Final = A2 + 102
_RX_POWER: Final = A2 + 104
_STATUS: Final = A2 + 110
_NOT_READY: Final = 0x01
_LOS: Final = 0x02


def has_diagnostics(identity: bytes) -> bool:
    """Whether a module with these first 128 bytes of A0h has an A2h."""
    return bool(identity[_DIAGNOSTICS] & _HAS_DIAGNOSTICS) and not identity[_DIAGNOSTICS] & _CHANGES_ADDRESS


def is_copper(identity: bytes) -> bool:
    """Whether the module is a direct-attach cable, which has no light and usually no A2h."""
    return bool(identity[_CABLE] & _CABLE_BITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Calibration:
    """Conversion of raw numbers to steps of 0.1 uW, 2 uA and 1/256 degree."""

    temperature: Callable[[int], float]
    bias: Callable[[int], float]
    tx_power: Callable[[int], float]
    rx_power: Callable[[int], float]


def parse_memory(memory: bytes) -> ModuleMemory:
    """Raises ProtocolError when this is not an SFF-8472 memory with valid checksums, or the module has no monitors."""
    check_size(memory, LAYOUT)
    if memory[0] not in IDENTIFIERS:
        known = ", ".join(f"{IDENTIFIERS[one]} {one:#04x}" for one in IDENTIFIERS)
        raise ProtocolError(f"module memory: identifier {memory[0]:#04x} is not an SFF-8472 module ({known})")
    check_sum(memory, 0, _BASE_SUM)
    check_sum(memory, _BASE_SUM + 1, _EXTENDED_SUM)
    identity = {
        "standard": LAYOUT.standard,
        "vendor": text(memory[_VENDOR]),
        "part": text(memory[_PART]),
        "revision": text(memory[_REVISION]),
        "serial": text(memory[_SERIAL]),
    }
    if is_copper(memory):
        return _dark(identity)
    if not has_diagnostics(memory):
        why = "its A2h needs a change of address" if memory[_DIAGNOSTICS] & _CHANGES_ADDRESS else "it has no A2h"
        raise ProtocolError(
            f"module {identity['vendor']} {identity['part']}: it does not measure its light (SFF-8472: {why}). "
            "Use a module with digital diagnostics"
        )
    check_sum(memory, A2, _CALIBRATION_SUM, named="95 of A2h")
    status = memory[_STATUS]
    if status & _NOT_READY:
        raise ProtocolError(f"module {identity['vendor']} {identity['part']}: its monitors are not ready yet")
    calibration = _external(memory) if memory[_DIAGNOSTICS] & _EXTERNALLY else _INTERNAL
    temperature, bias, tx_power, rx_power = struct.unpack_from(">h2xHHH", memory, _TEMPERATURE)
    has_los = bool(memory[_OPTIONS] & _HAS_LOS)
    return ModuleMemory(
        **identity,
        copper=False,
        temperature_c=calibration.temperature(temperature) / TEMPERATURE_STEPS,
        los=Los.STATE if has_los else Los.NONE,
        rx_los=(has_los and bool(status & _LOS),),
        rx_measured=True,
        rx_power_dbm=(power_dbm(calibration.rx_power(rx_power)),),
        tx_power_dbm=(power_dbm(calibration.tx_power(tx_power)),),
        bias_ma=(calibration.bias(bias) * BIAS_STEP_MA,),
        thresholds=None if memory[_DIAGNOSTICS] & _EXTERNALLY else parse_thresholds(memory, **_THRESHOLDS),
    )


def build_memory(
    *,
    vendor: str,
    part: str,
    serial: str,
    rx_power_dbm: float | None,
    tx_power_dbm: float | None,
    lost: bool,
    bias_ma: float = 0.0,
    revision: str = "A0",
    identifier: int = 0x03,
    temperature_c: float = 35.0,
) -> bytes:
    """The memory of an internally calibrated module as a twin simulates it, with loss of signal, without thresholds."""
    memory = bytearray(LAYOUT.size)
    memory[0], memory[1], memory[2] = identifier, 0x04, 0x07  # two-wire interface, LC
    for place, words in ((_VENDOR, vendor), (_PART, part), (_REVISION, revision), (_SERIAL, serial)):
        width = place.stop - place.start
        memory[place] = words.encode("ascii", "replace")[:width].ljust(width)
    memory[_DIAGNOSTICS] = _HAS_DIAGNOSTICS | _INTERNALLY | _AVERAGE
    memory[_OPTIONS] = _HAS_LOS
    memory[_BASE_SUM] = sum(memory[:_BASE_SUM]) & 0xFF
    memory[_EXTENDED_SUM] = sum(memory[_BASE_SUM + 1 : _EXTENDED_SUM]) & 0xFF
    memory[_CALIBRATION_SUM] = sum(memory[A2:_CALIBRATION_SUM]) & 0xFF
    struct.pack_into(">h", memory, _TEMPERATURE, round(temperature_c * TEMPERATURE_STEPS))
    values = (round(bias_ma / BIAS_STEP_MA), power_steps(tx_power_dbm), power_steps(rx_power_dbm))
    struct.pack_into(">HHH", memory, _BIAS, *values)
    memory[_STATUS] = _LOS if lost else 0
    return bytes(memory)


_INTERNAL: Final = _Calibration(temperature=float, bias=float, tx_power=float, rx_power=float)


def _external(memory: bytes) -> _Calibration:
    """Raises ProtocolError when the constants are not numbers: then the module is not calibrated at all."""
    constants = struct.unpack_from(">5f", memory, _RX_CONSTANTS)
    if not all(math.isfinite(constant) for constant in constants):
        raise ProtocolError(
            "module memory: its constants for received power (A2h bytes 56-75) are no numbers: it is not calibrated"
        )

    def rx_power(raw: int) -> float:
        steps = 0.0
        for constant in constants:  # of degree 4 first
            steps = steps * raw + constant
        return steps

    return _Calibration(
        temperature=_line(memory, _LINES["temperature"]),
        bias=_line(memory, _LINES["bias"]),
        tx_power=_line(memory, _LINES["tx"]),
        rx_power=rx_power,
    )


def _line(memory: bytes, start: int) -> Callable[[int], float]:
    """A function from raw numbers: slope in 1/256, and a signed offset in steps."""
    slope, offset = struct.unpack_from(">Hh", memory, start)
    return lambda raw: raw * slope / 256 + offset


def _dark(identity: dict[str, str]) -> ModuleMemory:
    return ModuleMemory(
        **identity,
        copper=True,
        temperature_c=None,
        los=Los.NONE,
        rx_los=(False,),
        rx_measured=False,
        rx_power_dbm=(None,),
        tx_power_dbm=(None,),
        bias_ma=(None,),
        thresholds=None,
    )
