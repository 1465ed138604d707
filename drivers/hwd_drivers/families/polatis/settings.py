"""Settings of the ports of a Polatis unit, as all of its protocols write them: plain values."""

from dataclasses import dataclass
from enum import StrEnum

from hwd_drivers.core.values import AttenuationMode


class AlarmType(StrEnum):
    """Which alarm of a port."""

    LOS = "LOS"
    """Loss of signal, or too much of it."""
    DEGRADED = "DEGRADED"
    """Less than there should be."""


class AlarmMode(StrEnum):
    """What is made of it."""

    OFF = "OFF"
    """Nothing."""
    SINGLE = "SINGLE"
    """Told once; it stands until it is cleared by hand."""
    CONT = "CONT"
    """Told each time; it clears itself when the light is good again."""


class Edge(StrEnum):
    """Which limit counts."""

    LOW = "LOW"
    """Light under the low one."""
    HIGH = "HIGH"
    """Light over the high one."""
    BOTH = "BOTH"
    """Either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """Of one alarm of one port; the limits are the defaults of the vendor's YANG model."""

    mode: AlarmMode = AlarmMode.OFF
    edge: Edge = Edge.LOW
    high_dbm: float = 25.0
    low_dbm: float = -60.0
    clears_after_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorConfig:
    """Of one monitor; the defaults are those of the YANG model. `averaging_code` is 1 to 8."""

    wavelength_nm: float = 1550.0
    offset_db: float = 0.0
    averaging_code: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class VoaSetting:
    """`level` in dBm (absolute, converged) or dB (relative); `reference` is the port that a relative one looks at, None for the connected one."""

    mode: AttenuationMode = AttenuationMode.NONE
    level: float | None = None
    reference: int | None = None


class FlapState(StrEnum):
    """What a port's programme does."""

    IDLE = "IDLE"
    """There is none."""
    SET = "SET"
    """It is there and does not run."""
    ACTIVE = "ACTIVE"
    """It runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlapProgramme:
    """Dark for `off_ms`, lit for `on_ms`, so many times."""

    off_ms: int
    on_ms: int
    cycles: int
