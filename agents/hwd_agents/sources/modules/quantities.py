"""The steps in which all module standards state power, bias and temperature."""

import math
from typing import Final

STEP_UW: Final = 0.1
"""One step of optical power. Zero steps means that there is too little light to measure."""
BIAS_STEP_MA: Final = 0.002
TEMPERATURE_STEPS: Final = 256
"""In one degree Celsius."""


def power_dbm(steps: float) -> float | None:
    """The power of so many steps of 0.1 uW; None for zero."""
    return 10 * math.log10(steps * STEP_UW / 1000) if steps > 0 else None


def power_steps(power: float | None) -> int:
    """A power in dBm as steps of 0.1 uW, limited to 16 bits."""
    return 0 if power is None else min(0xFFFF, round(10 ** (power / 10) * 1000 / STEP_UW))
