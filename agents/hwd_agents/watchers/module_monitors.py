"""Monitors: what a module measures of itself, and whether it moved by so much that it is told again."""

from typing import Any, Final

import msgspec

from hwd_agents.sources.modules.module_memory import ModuleMemory

POWER_MOVED_DB: Final = 0.2
BIAS_MOVED_MA: Final = 1.0
TEMPERATURE_MOVED_C: Final = 1.0
"""What lies below is the noise of their analogue-to-digital converters and of a room's air: a rack that is left alone tells nothing."""


class Monitors(msgspec.Struct, frozen=True, kw_only=True):
    """By lane; None where it is not measured, or no light that can be told."""

    rx_power_dbm: list[float | None]
    tx_power_dbm: list[float | None]
    bias_ma: list[float | None]
    temperature_c: float | None

    @classmethod
    def of(cls, module: ModuleMemory, lanes: int) -> "Monitors":
        """The first `lanes` lanes of a module, or as many as it has."""
        return cls(
            rx_power_dbm=_rounded(module.rx_power_dbm[:lanes]),
            tx_power_dbm=_rounded(module.tx_power_dbm[:lanes]),
            bias_ma=_rounded(module.bias_ma[:lanes]),
            temperature_c=None if module.temperature_c is None else round(module.temperature_c, 1),
        )

    def moved(self, before: "Monitors") -> bool:
        """Whether one of them is so far from what it was."""
        return (
            _moved(self.rx_power_dbm, before.rx_power_dbm, POWER_MOVED_DB)
            or _moved(self.tx_power_dbm, before.tx_power_dbm, POWER_MOVED_DB)
            or _moved(self.bias_ma, before.bias_ma, BIAS_MOVED_MA)
            or _moved([self.temperature_c], [before.temperature_c], TEMPERATURE_MOVED_C)
        )

    def to_data(self) -> dict[str, Any]:
        data: dict[str, Any] = msgspec.to_builtins(self)
        return data


def _rounded(values: tuple[float | None, ...]) -> list[float | None]:
    return [None if value is None else round(value, 2) for value in values]


def _moved(now: list[float | None], before: list[float | None], by: float) -> bool:
    if len(now) != len(before):
        return True
    return any(
        (one is None) != (other is None) or (one is not None and other is not None and abs(one - other) >= by)
        for one, other in zip(now, before, strict=True)
    )
