"""TL1 requests to a Polatis unit: one frozen class for each command. Ports are the unit's own numbers."""

from dataclasses import dataclass, field

from hwd_drivers.core.values import AttenuationMode
from hwd_drivers.families.polatis.settings import AlarmMode, AlarmType, Edge


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """ACT-USER"""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Logout:
    """CANC-USER"""

    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """RTRV-HDR"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MuteReports:
    """OPR-ARC-EQPT::REPMGR: no autonomous messages in this session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetIdleTimeout:
    """ED-EQPT::TIMEOUT; 0 is never."""

    timeout_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieveType:
    """RTRV-NETYPE: vendor, model, type, version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieveInventory:
    """RTRV-INV::OCS: the serial number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieveSize:
    """RTRV-EQPT::SYSTEM, PARAMETER=SIZE"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieveMonitors:
    """RTRV-EQPT::PMON or REVPMON, PARAMETER=CONFIG: ports with a power monitor."""

    reverse: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieveAttenuators:
    """RTRV-EQPT::ATTEN, PARAMETER=CONFIG: abilities of the attenuators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnterPatch:
    """ENT-PATCH: connect the n-th port of the left list with the n-th of the right one; ports in use are moved.

    `forced` overrides protection.
    """

    pairs: tuple[tuple[int, int], ...]
    forced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePatch:
    """DLT-PATCH: remove the connections of these ports, each named by either end; None is ALL."""

    ports: tuple[int, ...] | None
    forced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievePatch:
    """RTRV-PATCH: connections of these ports; None is all."""

    ports: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievePower:
    """RTRV-PORT-POWER, or RTRV-PORT-REVPOWER for returning light."""

    ports: tuple[int, ...]
    reverse: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieveMonitorConfig:
    """RTRV-PORT-PMON"""

    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMonitorConfig:
    """SET-PORT-PMON: values that are None do not change."""

    ports: tuple[int, ...]
    wavelength_nm: float | None = None
    offset_db: float | None = None
    averaging_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieveThreshold:
    """RTRV-TH-PMON"""

    ports: tuple[int, ...]
    type: AlarmType


@dataclass(frozen=True, slots=True, kw_only=True)
class SetThreshold:
    """SET-TH-PMON: values that are None do not change."""

    ports: tuple[int, ...]
    type: AlarmType
    mode: AlarmMode | None = None
    edge: Edge | None = None
    high_dbm: float | None = None
    low_dbm: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieveAlarm:
    """RTRV-STATE-PMON"""

    ports: tuple[int, ...]
    type: AlarmType


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearAlarm:
    """SET-STATE-PMON"""

    ports: tuple[int, ...]
    type: AlarmType


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseShutter:
    """OPR-PORT-SHUTTER: no light passes these ports."""

    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenShutter:
    """RLS-PORT-SHUTTER"""

    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieveShutter:
    """RTRV-PORT-SHUTTER"""

    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieveLabel:
    """RTRV-PORT-LABEL"""

    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EditLabel:
    """ED-PORT-LABEL"""

    ports: tuple[int, ...]
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EnterFlap:
    """ENT-PORT-FLAP: a programme of dark and lit times, in milliseconds."""

    ports: tuple[int, ...]
    off_ms: int
    on_ms: int
    cycles: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFlap:
    """OPR-PORT-FLAP"""

    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopFlap:
    """RLS-PORT-FLAP"""

    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieveFlap:
    """RTRV-PORT-FLAP; None is all ports with a programme."""

    ports: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieveAttenuation:
    """RTRV-PORT-ATTEN"""

    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAttenuation:
    """SET-PORT-ATTEN: `references` has no port, or one for each of `ports`."""

    ports: tuple[int, ...]
    mode: AttenuationMode
    level: float | None = None
    references: tuple[int, ...] = ()


Request = (
    Login
    | Logout
    | Ping
    | MuteReports
    | SetIdleTimeout
    | RetrieveType
    | RetrieveInventory
    | RetrieveSize
    | RetrieveMonitors
    | RetrieveAttenuators
    | EnterPatch
    | DeletePatch
    | RetrievePatch
    | RetrievePower
    | RetrieveMonitorConfig
    | SetMonitorConfig
    | RetrieveThreshold
    | SetThreshold
    | RetrieveAlarm
    | ClearAlarm
    | CloseShutter
    | OpenShutter
    | RetrieveShutter
    | RetrieveLabel
    | EditLabel
    | EnterFlap
    | StartFlap
    | StopFlap
    | RetrieveFlap
    | RetrieveAttenuation
    | SetAttenuation
)
