"""The parts of a birth message: ports, settings that runs have changed, the host's own switches, and its clocks."""

from typing import Annotated

import msgspec
from msgspec import Meta

from .bounds import ByName, Measured, Name, Number, Origin, SettingState, Text, UdpPort, Words, check_ip


class VerbsAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a UD queue pair: the GID of its port, written as an IPv6 address, its number and its Q_Key."""

    gid: Name
    qpn: Annotated[int, Meta(ge=1, lt=1 << 24)]
    qkey: Annotated[int, Meta(ge=0, lt=1 << 32)]

    def __post_init__(self) -> None:
        """Check that `gid` is an IPv6 address."""
        check_ip("gid", self.gid)
        if ":" not in self.gid:
            raise ValueError(f"gid: {self.gid!r} is no IPv6 address")


class SourceNote(msgspec.Struct, frozen=True, kw_only=True):
    """A note of what one source of a port observes, or why it cannot.

    `origin`: measured, kernel, twin or fitted. `limits`: what it cannot observe, in words.
    """

    sees: Words
    origin: Origin
    why_not: Text = ""
    limits: Text = ""


class PortNote(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one NIC port.

    `carrier` and `carrier_changes` are None where the interface is missing, `verbs` where the port is not probed by
    RDMA.
    """

    interface: Name
    present: bool
    ip: Name | None
    carrier: bool | None
    carrier_changes: Number | None
    probe_port: UdpPort | None
    sources: ByName[SourceNote]
    verbs: VerbsAddress | None = None

    def __post_init__(self) -> None:
        """Check that `ip` is numeric: other hosts probe it, and a name would go to the resolver."""
        if self.ip is not None:
            check_ip("ip", self.ip.partition("/")[0])


class HeldSetting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting of a port that `run` changed and that was not put back yet.

    `value`: the first value that the run set. `before`: the state before that.
    """

    run: Name
    port: Name
    setting: Name
    value: SettingState
    before: SettingState


class SwitchNote(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a switch that the host drives.

    `model`: as the switch reports it, else as in the agent's file. `epoch`: of the lease under which it may be set now;
    None where it may not, and `why_not` says why.
    """

    driver: Name
    model: Text
    ports: Words
    up: bool
    cause: Text = ""
    vendor: Text = ""
    serial: Text = ""
    firmware: Text = ""
    epoch: Number | None = None
    last_epoch: Number = 0
    why_not: Text = ""


class ClockUdp(msgspec.Struct, frozen=True, kw_only=True):
    """The UDP address of the agent's clock; `key` authenticates the datagrams of this boot."""

    address: Name
    port: UdpPort
    key: Annotated[str, Meta(pattern=r"\A[!-~]{1,32}\Z")]

    def __post_init__(self) -> None:
        """Check that the address is numeric: a name would go to the resolver, which blocks."""
        check_ip("clock address", self.address)


class WallClock(msgspec.Struct, frozen=True, kw_only=True):
    """The synchronisation of the wall clock of the host, which is used for labels only.

    `synchronised_by`: `chrony`, `ptp4l`, or null where none of them answered; then `why_not` says what was tried.

    `reference`: the source of time. `offset_s`: how far the clock is ahead of it, right within `error_s`. `stratum`:
    steps from a reference clock; null by PTP.
    """

    synchronised_by: Name | None
    reference: Text = ""
    stratum: Number | None = None
    offset_s: Measured | None = None
    error_s: Measured | None = None
    why_not: Text = ""


class ClockNote(msgspec.Struct, frozen=True, kw_only=True):
    """The clocks of a host.

    `udp`: the address for the raw monotonic clock; null where that can be asked over the broker only, and `why_not_udp`
    says why. `wall`: null until it was read.
    """

    udp: ClockUdp | None
    why_not_udp: Text
    wall: WallClock | None
