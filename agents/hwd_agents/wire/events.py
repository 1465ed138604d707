"""The data of each kind of event, and its decoding, which checks all of it.

A new kind is a struct here and its line in `DATA`. The reference page is made from them.
An optional field is UNSET where it was not sent, so that an event of the version before can be read, and a document has
only the fields that were sent.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

import msgspec
from msgspec import UNSET, UnsetType

from hwd_drivers.core.errors import ConfigError, ProtocolError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import from_plain
from hwd_drivers.core.values import Crossconnect, CrossconnectState

from .bounds import (
    COUNTER_MOST,
    ENDS_MOST,
    At,
    Boot,
    Ends,
    Lanes,
    Measured,
    Name,
    Number,
    Seconds,
    Seq,
    SettingState,
    Text,
)
from .selection import Selected

RANGES_MOST: Final = 256 * 256
"""256 for each of 256 boots, as in `hwd_agents.spool.ranges`."""


class CarrierData(msgspec.Struct, frozen=True, kw_only=True):
    """A change of carrier; `unseen`: flaps that the kernel counted and nobody saw one by one."""

    carrier: bool
    carrier_changes: Number | UnsetType = UNSET
    unseen: Number | UnsetType = UNSET


class InterfaceData(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the interface exists."""

    present: bool


class LinkStateData(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a link as its NIC reports it; null where it reports nothing.

    `why_down` and `detail` are null while the link is up. `downs`: how often the PHY lost the link as counted by the
    NIC, which sees more losses than the kernel. `fec`: the FEC in use.
    """

    up: bool | None
    why_down: Text | None
    detail: Text | None
    downs: Number | None
    autoneg: bool | None
    speed_mbps: At | None
    fec: Name | None


class CounterData(msgspec.Struct, frozen=True, kw_only=True):
    """The counters of `hwd_agents.sources.kernel.port_counters`; null where not counted.

    `tcp_retransmissions`: of the whole host.
    """

    rx_bytes: int
    tx_bytes: int
    rx_packets: int
    tx_packets: int
    rx_errors: int
    tx_errors: int
    rx_dropped: int
    tx_dropped: int
    rx_pause: int | None
    tx_pause: int | None
    tcp_retransmissions: int | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        """Check the range here, since bounds in types end at 63 bits."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, int) and not 0 <= value <= COUNTER_MOST:
                raise ValueError(f"{name} is no counter of 64 bits")


class LightData(msgspec.Struct, frozen=True, kw_only=True):
    """Power per lane in dBm, null where there is none. `one_sided`: the change may be any time before `at_ns`, and
    `earliest_ns` is 0.
    """

    lanes: Lanes
    one_sided: bool | UnsetType = UNSET


class PutBackData(msgspec.Struct, frozen=True, kw_only=True):
    """No `hold` came for the setting, so the agent restored it by itself."""

    run: Name
    setting: Name
    state: SettingState


class MonitorData(msgspec.Struct, frozen=True, kw_only=True):
    """The monitors of a module, by lane; null where it does not measure a quantity. Sent on change.

    The last two fields are about the sampling, in birth messages only.
    """

    rx_power_dbm: Lanes
    tx_power_dbm: Lanes
    bias_ma: Lanes
    temperature_c: Measured | None
    sampled_every_s: Seconds | UnsetType | None = UNSET
    read_s: Seconds | UnsetType | None = UNSET


class FirmwareData(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the NIC's own PHY is up."""

    up: bool


class RdmaData(msgspec.Struct, frozen=True, kw_only=True):
    """A change of RDMA; `missed`: losses of its carrier that neither the device's events nor its files showed."""

    active: bool
    missed: Number | UnsetType = UNSET


class ReadyData(msgspec.Struct, frozen=True, kw_only=True):
    """The first end-to-end transfer succeeded. `via`: verbs-ud or udp; `why_udp`: where the port has an RDMA device."""

    reconfiguration: Name
    peer: Name
    via: Text | UnsetType = UNSET
    sent: Number | UnsetType = UNSET
    failed: Number | UnsetType = UNSET
    why_udp: Text | UnsetType = UNSET


class WrongPeerData(msgspec.Struct, frozen=True, kw_only=True):
    """Another port than `expected` answered the probe."""

    reconfiguration: Name
    expected: Name
    found: Name


class RcRecoveryData(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a send posted on an RC queue pair while the link was dark; see `hwd.model.rc_recovery`.

    `completed`: the send got through; `failed`: its retries were used up; `re-made`: the queue pair was created again
    after that. `after_s`: since the post.
    """

    reconfiguration: Name
    peer: Name
    outcome: Literal["completed", "re-made", "failed"]
    after_s: Measured
    ack_timeout_s: Seconds
    retries: Number
    why: Text | UnsetType = UNSET


class LostData(msgspec.Struct, frozen=True, kw_only=True):
    """Events that the spool had to drop. `ranges`: [boot, first seq, last seq] of those with a known number, the newest
    256 of each of 256 boots.
    """

    count: Number
    why: Text | UnsetType = UNSET
    ranges: list[tuple[Boot, Seq, Seq]] | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Check that no range ends before it begins."""
        ranges = () if isinstance(self.ranges, UnsetType) else self.ranges
        if len(ranges) > RANGES_MOST:
            raise ValueError(f"{len(ranges)} ranges are over the limit of {RANGES_MOST}")
        if any(first > last for _, first, last in ranges):
            raise ValueError("a range ends before it begins")


class CrossconnectNote(msgspec.Struct, frozen=True, kw_only=True):
    """One crossconnect as its switch reports it."""

    id: Name
    state: CrossconnectState

    def __post_init__(self) -> None:
        """Check that `id` is a crossconnect, such as `1A-2B`."""
        try:
            Crossconnect.parse(self.id)
        except ConfigError as error:
            raise ValueError(str(error)) from error


class _Switch(msgspec.Struct, frozen=True, kw_only=True, tag_field="what"):
    switch: Name


class SwitchUpData(_Switch, frozen=True, kw_only=True, tag="up"):
    """A switch was connected and has identified itself."""

    vendor: Text
    model: Text
    serial: Text
    firmware: Text
    down_s: Seconds


class SwitchDownData(_Switch, frozen=True, kw_only=True, tag="down"):
    """A switch was disconnected."""

    cause: Text


class SwitchRestartedData(_Switch, frozen=True, kw_only=True, tag="restarted"):
    """A switch has restarted between two sessions, as `sign` shows: `uptime` or `at-rest`."""

    sign: Name
    lost: Ends
    uptime_s: Seconds | None
    unheard_s: Seconds


class SwitchReadData(_Switch, frozen=True, kw_only=True, tag="read"):
    """The reported crossconnects of a switch, when they changed."""

    crossconnects: list[CrossconnectNote]
    added: Ends
    removed: Ends
    ours: bool

    def __post_init__(self) -> None:
        """Check the number of items."""
        if len(self.crossconnects) > ENDS_MOST:
            raise ValueError(f"{len(self.crossconnects)} crossconnects are over the limit of {ENDS_MOST}")


class SwitchCommandData(_Switch, frozen=True, kw_only=True, tag="command"):
    """The outcome of one command to a switch. `moved`: the elements, else the fibre ends, that it moved."""

    verb: Name
    outcome: Name
    seconds: Seconds
    code: Text
    text: Text
    moved: Ends | UnsetType = UNSET


class SwitchPowerData(_Switch, frozen=True, kw_only=True, tag="power"):
    """The optical power by fibre end in dBm, null where dark."""

    power_dbm: dict[Name, Measured | None]

    def __post_init__(self) -> None:
        """Check the number of items."""
        if len(self.power_dbm) > ENDS_MOST:
            raise ValueError(f"{len(self.power_dbm)} ends are over the limit of {ENDS_MOST}")


class SwitchOverrideData(_Switch, frozen=True, kw_only=True, tag="override"):
    """Fibre ends that somebody blocked, or unblocked."""

    ends: Ends
    to: Name
    by: Text


SwitchData = (
    SwitchUpData
    | SwitchDownData
    | SwitchRestartedData
    | SwitchReadData
    | SwitchCommandData
    | SwitchPowerData
    | SwitchOverrideData
)
SWITCH_REPORTS: Final = frozenset(report.__struct_config__.tag for report in get_args(SwitchData))
"""The values of the field `what` of an event `switch`."""

DATA: Final[Mapping[str, Any]] = {
    "carrier": CarrierData,
    "interface": InterfaceData,
    "link-state": LinkStateData,
    "counters": CounterData,
    "dark": LightData,
    "light": LightData,
    "put-back": PutBackData,
    "monitors": MonitorData,
    "firmware": FirmwareData,
    "rdma": RdmaData,
    "ready": ReadyData,
    "switch": SwitchData,
    "selection": Selected,
    "rc-recovery": RcRecoveryData,
    "wrong-peer": WrongPeerData,
    "lost": LostData,
}
"""The type of the data, by kind of event."""


def read_data(kind: str, data: Mapping[str, Any]) -> msgspec.Struct | None:
    """The data of an event, by its kind; None where this version does not define that. Fields of a newer version are
    left out. Raises ProtocolError, which names the first wrong field.
    """
    if (type := DATA.get(kind)) is None:
        return None
    if kind == "switch" and isinstance(what := data.get("what"), str) and what not in SWITCH_REPORTS:
        return None
    try:
        found: msgspec.Struct = from_plain(data, type)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ProtocolError(f"its data cannot be read: {reason_of(error)}") from error
    return found
