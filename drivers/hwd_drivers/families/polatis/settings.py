"""Settings of the ports of a Polatis unit, the same in all of its protocols: plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar

from hwd_drivers.core.values import AttenuationMode

SettingT = TypeVar("SettingT", "Threshold", "MonitorConfig")


class AlarmType(StrEnum):
    """Kind of alarm of a port."""

    LOS = "LOS"
    """Loss of signal, or too high power."""
    DEGRADED = "DEGRADED"
    """Degraded signal."""


class AlarmMode(StrEnum):
    """How an alarm is reported."""

    OFF = "OFF"
    """Not at all."""
    SINGLE = "SINGLE"
    """Once; it stays until it is cleared by hand."""
    CONT = "CONT"
    """Each time; it ends by itself when the light is good again."""


class Edge(StrEnum):
    """Which limit counts."""

    LOW = "LOW"
    """Light below the low limit."""
    HIGH = "HIGH"
    """Light above the high limit."""
    BOTH = "BOTH"
    """Either limit counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """Limits of one alarm of one port; the defaults are those of the vendor's YANG model."""

    mode: AlarmMode = AlarmMode.OFF
    edge: Edge = Edge.LOW
    high_dbm: float = 25.0
    low_dbm: float = -60.0
    clears_after_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorConfig:
    """Settings of one monitor; the defaults are those of the YANG model. `averaging_code` is 1 to 8."""

    wavelength_nm: float = 1550.0
    offset_db: float = 0.0
    averaging_code: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class VoaSetting:
    """A setting of a variable optical attenuator; `level` in dBm (absolute, converged) or dB (relative).

    `reference`: the reference port of a relative level, None for the connected port.
    """

    mode: AttenuationMode = AttenuationMode.NONE
    level: float | None = None
    reference: int | None = None


class FlapState(StrEnum):
    """State of a port's programme."""

    IDLE = "IDLE"
    """No programme."""
    SET = "SET"
    """The programme is stopped."""
    ACTIVE = "ACTIVE"
    """The programme is running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlapProgramme:
    """Dark for `off_ms`, lit for `on_ms`, so many times."""

    off_ms: int
    on_ms: int
    cycles: int


def changed(before: SettingT, values: Mapping[str, Any]) -> SettingT:
    """A setting with those values that are not None."""
    return replace(before, **{name: value for name, value in values.items() if value is not None})
