"""Thresholds at which a module itself warns and raises alarms; SFF-8472, SFF-8636 and CMIS share their layout."""

import struct
from typing import Final

from hwd_agents.wire import LimitNote, ThresholdNote

from .quantities import BIAS_STEP_MA, TEMPERATURE_STEPS, power_dbm

SIZE: Final = 8
"""High alarm, low alarm, high warning and low warning of one quantity, in the quantity's own steps."""


def parse_thresholds(
    memory: bytes, *, temperature: int, bias: int, tx_power: int, rx_power: int, multiplier: int = 1
) -> ThresholdNote | None:
    """Parse them at these offsets; `multiplier` scales the bias. None when all bytes are zero: it has none.

    A limit of a power is None when the module states no power (zero steps).
    """
    parts = [memory[at : at + SIZE] for at in (temperature, bias, tx_power, rx_power)]
    if not any(map(any, parts)):
        return None
    high, low, warm, cool = struct.unpack(">4h", parts[0])
    degrees = [steps / TEMPERATURE_STEPS for steps in (low, cool, warm, high)]
    return ThresholdNote(
        temperature_c=_limits(degrees),
        bias_ma=_limits([steps * BIAS_STEP_MA * multiplier for steps in _steps(parts[1])]),
        tx_power_dbm=_limits([power_dbm(steps) for steps in _steps(parts[2])]),
        rx_power_dbm=_limits([power_dbm(steps) for steps in _steps(parts[3])]),
    )


def _steps(part: bytes) -> tuple[int, int, int, int]:
    """Sort four thresholds from low to high."""
    high_alarm, low_alarm, high_warning, low_warning = struct.unpack(">4H", part)
    return low_alarm, low_warning, high_warning, high_alarm


def _limits(values: "list[float] | list[float | None]") -> LimitNote:
    low_alarm, low_warning, high_warning, high_alarm = map(_rounded, values)
    return LimitNote(low_alarm=low_alarm, low_warning=low_warning, high_warning=high_warning, high_alarm=high_alarm)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
