"""Thresholds at which a module itself warns and raises alarms; SFF-8472, SFF-8636 and CMIS share their layout."""

import struct
from dataclasses import dataclass
from typing import Final, Self

from .quantities import BIAS_STEP_MA, TEMPERATURE_STEPS, power_dbm

SIZE: Final = 8
"""High alarm, low alarm, high warning and low warning of one quantity, in the quantity's own steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The four thresholds of one quantity; None when the module states no power (zero steps)."""

    low_alarm: float | None
    low_warning: float | None
    high_warning: float | None
    high_alarm: float | None

    def to_data(self) -> dict[str, float | None]:
        return {
            "low_alarm": _rounded(self.low_alarm),
            "low_warning": _rounded(self.low_warning),
            "high_warning": _rounded(self.high_warning),
            "high_alarm": _rounded(self.high_alarm),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The thresholds of a module; those for power and bias apply to each lane."""

    temperature_c: Limits
    bias_ma: Limits
    tx_power_dbm: Limits
    rx_power_dbm: Limits

    @classmethod
    def of(
        cls, memory: bytes, *, temperature: int, bias: int, tx_power: int, rx_power: int, multiplier: int = 1
    ) -> Self | None:
        """Parse them at these offsets; `multiplier` scales the bias. None when all bytes are zero: it has none."""
        parts = [memory[at : at + SIZE] for at in (temperature, bias, tx_power, rx_power)]
        if not any(map(any, parts)):
            return None
        high, low, warm, cool = struct.unpack(">4h", parts[0])
        degrees = [steps / TEMPERATURE_STEPS for steps in (low, cool, warm, high)]
        return cls(
            temperature_c=_limits(degrees),
            bias_ma=_limits([steps * BIAS_STEP_MA * multiplier for steps in _steps(parts[1])]),
            tx_power_dbm=_limits([power_dbm(steps) for steps in _steps(parts[2])]),
            rx_power_dbm=_limits([power_dbm(steps) for steps in _steps(parts[3])]),
        )

    def to_data(self) -> dict[str, dict[str, float | None]]:
        return {
            "temperature_c": self.temperature_c.to_data(),
            "bias_ma": self.bias_ma.to_data(),
            "tx_power_dbm": self.tx_power_dbm.to_data(),
            "rx_power_dbm": self.rx_power_dbm.to_data(),
        }


def _steps(part: bytes) -> tuple[int, int, int, int]:
    """From low to high."""
    high_alarm, low_alarm, high_warning, low_warning = struct.unpack(">4H", part)
    return low_alarm, low_warning, high_warning, high_alarm


def _limits(values: "list[float] | list[float | None]") -> Limits:
    low_alarm, low_warning, high_warning, high_alarm = values
    return Limits(low_alarm=low_alarm, low_warning=low_warning, high_warning=high_warning, high_alarm=high_alarm)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
