"""Monitors: a module's measurements of itself, and whether they changed enough for another report."""

from typing import Final

from hwd_agents.sources.modules.module_memory import ModuleMemory
from hwd_agents.wire.events import MonitorData

POWER_MOVED_DB: Final = 0.2
BIAS_MOVED_MA: Final = 1.0
TEMPERATURE_MOVED_C: Final = 1.0
"""Smaller changes are noise of the analogue-to-digital converters and of the room's air: an idle rack is silent."""


def monitors_of(module: ModuleMemory, lanes: int) -> MonitorData:
    """The monitors of the first `lanes` lanes of a module, or of as many as it has.

    None when the module does not measure a value, or the light is too weak.
    """
    return MonitorData(
        rx_power_dbm=_rounded(module.rx_power_dbm[:lanes]),
        tx_power_dbm=_rounded(module.tx_power_dbm[:lanes]),
        bias_ma=_rounded(module.bias_ma[:lanes]),
        temperature_c=None if module.temperature_c is None else round(module.temperature_c, 1),
    )


def moved(now: MonitorData, before: MonitorData) -> bool:
    """Whether a value differs from `before` by more than the noise."""
    return (
        _moved(now.rx_power_dbm, before.rx_power_dbm, POWER_MOVED_DB)
        or _moved(now.tx_power_dbm, before.tx_power_dbm, POWER_MOVED_DB)
        or _moved(now.bias_ma, before.bias_ma, BIAS_MOVED_MA)
        or _moved([now.temperature_c], [before.temperature_c], TEMPERATURE_MOVED_C)
    )


def _rounded(values: tuple[float | None, ...]) -> list[float | None]:
    return [None if value is None else round(value, 2) for value in values]


def _moved(now: list[float | None], before: list[float | None], by: float) -> bool:
    if len(now) != len(before):
        return True
    return any(
        (one is None) != (other is None) or (one is not None and other is not None and abs(one - other) >= by)
        for one, other in zip(now, before, strict=True)
    )
