"""Faults that can be injected into twins, by a playbook, the command line or the rack's control socket.

| fault | subject | effect |
|---|---|---|
| deny {code, text} | switch | the next change is denied |
| reset | switch | all sessions are cut now |
| refuse {on} | switch | new sessions are closed at once |
| slow {seconds} | switch | every answer is delayed by so much |
| silent {on} | switch | commands are executed and not answered |
| half | switch | the next answer ends in its middle |
| garble | switch | the next answer is garbage |
| wrong | switch | the next answer is a well-formed one to another command |
| partial {pairs} | switch | of the next change only so many pairs are made; it is acknowledged, or denied with `deny` |
| stick {ends} | switch | the mirrors of these ends no longer move, and changes are acknowledged as if they did |
| fail {ends} | switch | no path of these ends can be made any more, and the switch reports that |
| drift {ends, loss_db, over_s} | switch | each of these ends loses so much more: at once or gradually |
| panel {remove, add} | switch | somebody changes crossconnects at its front panel, now |
| reboot {seconds} | switch | all sessions are cut and refused for so long; then it is in its power-up state |
| slow-firmware {seconds} | port | the NIC's firmware takes so much longer each time |
| unplug {on} | port | the module is removed: no light in or out, and nothing to read |
| cut {strand} | port | the strand at `tx`, at `rx`, or both are cut: that light is lost |
| weak {loss_db} | port | its lasers send so much less |
| flap {times, down_s, up_s} | port | carrier down for `down_s`, then up for `up_s`, `times` times; its light stays |
| stuck-phy {on} | port | its PHY stays down, whatever light there is |
| agent-killed | host | its agent gets SIGKILL now; its supervisor starts another |
| clock-step {seconds} | host | its clock is set forward (backward, below 0) by so much, now |
| nic-timing {timing} | host | its NICs take the times of another timing, from the next time that a link comes up |
| clear | any, or none for all | all faults of the subject end |
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from typing_extensions import override

from hwd.model.field_findings import findings, takes
from hwd.model.nic_port import NicPortId
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import from_json, from_plain, to_plain
from hwd_drivers.core.values import Crossconnect, PortSide

SECONDS_MOST: Final = 86_400.0
FLAPS_MOST: Final = 1000
LOSS_MOST_DB: Final = 60.0
PAIRS_MOST: Final = 100_000

Seconds = Annotated[float, msgspec.Meta(ge=0, le=SECONDS_MOST)]
NicTimingName = Literal["opus-cx6dx-autoneg", "opus-cx6dx", "mfabric-cx6", "ideal"]
"""The names of timings in `hwd.twin.nic_timing`."""
FlapSeconds = Annotated[float, msgspec.Meta(gt=0, le=60)]


class _Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="fault"):
    @override
    def __str__(self) -> str:
        """`ocs1 slow seconds=0.5`, as on the command line."""
        data: dict[str, Json] = to_plain(self)
        subject = [str(data.pop(key)) for key in ("switch", "port", "host") if key in data]
        return " ".join([*subject, str(data.pop("fault")), *(f"{key}={_words(value)}" for key, value in data.items())])


class SwitchFault(_Fault, frozen=True, kw_only=True):
    """A fault of the twin of `switch`."""

    switch: str

    @property
    def subject(self) -> str:
        return self.switch


class PortFault(_Fault, frozen=True, kw_only=True):
    """A fault of `port`, a NIC port of a twin host, `h0.eth0`."""

    port: str

    @property
    def subject(self) -> str:
        return self.port

    @property
    def id(self) -> NicPortId:
        return NicPortId.parse(self.port)


class HostFault(_Fault, frozen=True, kw_only=True):
    """A fault of a twin host as a whole."""

    host: str

    @property
    def subject(self) -> str:
        return self.host


class Deny(SwitchFault, frozen=True, kw_only=True, tag="deny"):
    code: str
    text: str = ""


class Reset(SwitchFault, frozen=True, kw_only=True, tag="reset"):
    pass


class Refuse(SwitchFault, frozen=True, kw_only=True, tag="refuse"):
    on: bool = True


class Slow(SwitchFault, frozen=True, kw_only=True, tag="slow"):
    seconds: Seconds


class Silent(SwitchFault, frozen=True, kw_only=True, tag="silent"):
    on: bool = True


class Half(SwitchFault, frozen=True, kw_only=True, tag="half"):
    pass


class Garble(SwitchFault, frozen=True, kw_only=True, tag="garble"):
    pass


class Wrong(SwitchFault, frozen=True, kw_only=True, tag="wrong"):
    pass


class Partial(SwitchFault, frozen=True, kw_only=True, tag="partial"):
    pairs: Annotated[int, msgspec.Meta(ge=0, le=PAIRS_MOST)]


class Stick(SwitchFault, frozen=True, kw_only=True, tag="stick"):
    ends: tuple[str, ...]


class Fail(SwitchFault, frozen=True, kw_only=True, tag="fail"):
    ends: tuple[str, ...]


class Drift(SwitchFault, frozen=True, kw_only=True, tag="drift"):
    ends: tuple[str, ...]
    loss_db: Annotated[float, msgspec.Meta(ge=0, le=LOSS_MOST_DB)]
    over_s: Seconds = 0.0


class Panel(SwitchFault, frozen=True, kw_only=True, tag="panel"):
    """A change at a switch's panel: `1A-2B` in `remove` and `add`; what collides with `add` is removed."""

    remove: tuple[str, ...] = ()
    add: tuple[str, ...] = ()

    def pairs(self) -> tuple[tuple[Crossconnect, ...], tuple[Crossconnect, ...]]:
        """The crossconnects to remove and those to add. Raises ConfigError for what is no crossconnect."""
        return tuple(map(Crossconnect.parse, self.remove)), tuple(map(Crossconnect.parse, self.add))


class Reboot(SwitchFault, frozen=True, kw_only=True, tag="reboot"):
    seconds: Seconds


class SlowFirmware(PortFault, frozen=True, kw_only=True, tag="slow-firmware"):
    seconds: Seconds


class Unplug(PortFault, frozen=True, kw_only=True, tag="unplug"):
    on: bool = True


class Cut(PortFault, frozen=True, kw_only=True, tag="cut"):
    strand: Literal["tx", "rx", "both"] = "both"


class Weak(PortFault, frozen=True, kw_only=True, tag="weak"):
    loss_db: Annotated[float, msgspec.Meta(ge=0, le=LOSS_MOST_DB)]


class Flap(PortFault, frozen=True, kw_only=True, tag="flap"):
    times: Annotated[int, msgspec.Meta(ge=1, le=FLAPS_MOST)] = 1
    down_s: FlapSeconds = 0.05
    up_s: FlapSeconds = 0.05


class StuckPhy(PortFault, frozen=True, kw_only=True, tag="stuck-phy"):
    on: bool = True


class AgentKilled(HostFault, frozen=True, kw_only=True, tag="agent-killed"):
    pass


class ClockStep(HostFault, frozen=True, kw_only=True, tag="clock-step"):
    seconds: Annotated[float, msgspec.Meta(ge=-SECONDS_MOST, le=SECONDS_MOST)]


class OtherNicTiming(HostFault, frozen=True, kw_only=True, tag="nic-timing"):
    timing: NicTimingName


class Clear(_Fault, frozen=True, kw_only=True, omit_defaults=True, tag="clear"):
    """Ends the faults of one subject, or all faults where none is named."""

    switch: str | None = None
    port: str | None = None
    host: str | None = None

    def __post_init__(self) -> None:
        if sum(name is not None for name in (self.switch, self.port, self.host)) > 1:
            raise ValueError("name one switch, port or host, or none for all")

    @property
    def subject(self) -> str:
        return self.switch or self.port or self.host or ""


AnySwitchFault = (
    Deny | Reset | Refuse | Slow | Silent | Half | Garble | Wrong | Partial | Stick | Fail | Drift | Panel | Reboot
)
AnyPortFault = SlowFirmware | Unplug | Cut | Weak | Flap | StuckPhy
AnyHostFault = AgentKilled | ClockStep | OtherNicTiming
Fault = AnySwitchFault | AnyPortFault | AnyHostFault | Clear

FAULTS: Final[Mapping[str, type[Any]]] = {str(kind.__struct_config__.tag): kind for kind in get_args(Fault)}
"""Every fault by its name."""


def parse_fault(data: Mapping[str, Any]) -> Fault:
    """Read `{"switch": "ocs1", "fault": "slow", "seconds": 0.5}`. Raises ConfigError that names what is wrong."""
    name = data.get("fault")
    if not isinstance(name, str) or name not in FAULTS:
        raise ConfigError(f"fault: {name!r} is no fault; there are {', '.join(FAULTS)}")
    try:
        fault: Fault = from_plain(dict(data), Fault)
    except msgspec.ValidationError as error:
        subject = next((f"{data[key]} " for key in ("switch", "port", "host") if isinstance(data.get(key), str)), "")
        found = "; ".join(findings(data, FAULTS[name])) or reason_of(error)
        raise ConfigError(f"fault: {subject}{name}: {found}. {name} takes {takes(FAULTS[name])}") from error
    _check_names(fault)
    return fault


def decode_fault(line: bytes) -> Fault:
    """`parse_fault` of JSON. Raises ConfigError for anything else."""
    try:
        data = from_json(line, dict[str, Any])
    # RecursionError: objects nested too deep
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"fault: not a JSON object: {reason_of(error)}") from error
    return parse_fault(data)


def _check_names(fault: Fault) -> None:
    match fault:
        case PortFault(port=port) | Clear(port=str(port)):
            NicPortId.parse(port)
        case Stick(ends=ends) | Fail(ends=ends) | Drift(ends=ends):
            if not ends:
                raise ConfigError(f"fault: {fault.__struct_config__.tag}: name at least one end, such as 3A")
            for end in ends:
                PortSide.parse(end)
        case Panel():
            if not any(fault.pairs()):
                raise ConfigError("fault: panel: name a crossconnect to remove or to add, such as 1A-2B")


def _words(value: Json) -> str:
    match value:
        case bool():
            return "on" if value else "off"
        case list() | tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)
