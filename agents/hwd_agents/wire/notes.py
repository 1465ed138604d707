"""The parts of a birth: ports, settings that runs have changed, the host's own switches, and its clocks."""

from typing import Annotated

import msgspec
from msgspec import Meta

from .arguments import VerbsAddress
from .bounds import ByName, Measured, Name, Number, Origin, SettingState, Text, UdpPort, Words, check_ip


class SourceNote(msgspec.Struct, frozen=True, kw_only=True):
    """What one source of a port can tell, or why it cannot.

    `origin`: measured, kernel, twin or fitted. `limits`: what of that it cannot tell, in words.
    """

    sees: Words
    origin: Origin
    why_not: Text = ""
    limits: Text = ""


class PortNote(msgspec.Struct, frozen=True, kw_only=True):
    """One NIC port as the agent finds it.

    `carrier` and `carrier_changes` are None where the interface is missing, `verbs` where it is not probed by RDMA.
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
        """Others probe it there: no resolver is asked."""
        if self.ip is not None:
            check_ip("ip", self.ip.partition("/")[0])


class HeldSetting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting of a port that `run` changed and that was not put back yet.

    `value` is what it was first set to, `before` the state it had until then.
    """

    run: Name
    port: Name
    setting: Name
    value: SettingState
    before: SettingState


class SwitchNote(msgspec.Struct, frozen=True, kw_only=True):
    """A switch that the host drives, as its agent finds it.

    `model`: what it says that it is, else what the agent's file says. `epoch`: of the lease under which it may be set
    now, None where it may not; `why_not` says why.
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
    """Where the agent's clock is asked by UDP; `key` makes and checks the proofs of the datagrams of this boot."""

    address: Name
    port: UdpPort
    key: Annotated[str, Meta(pattern=r"\A[!-~]{1,32}\Z")]

    def __post_init__(self) -> None:
        """A numeric address: connecting to a name would ask a resolver, which blocks."""
        check_ip("clock address", self.address)


class WallClock(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps the wall clock of the host, which only labels are made of.

    `synchronised_by`: `chrony`, `ptp4l`, or null for nothing that could be asked, then `why_not` says what was tried.

    `reference`: what it follows. `offset_s`: how far the clock is ahead of that, right within `error_s`. `stratum`:
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

    `udp`: where the raw monotonic one can be asked; null, and `why_not_udp`, where only over the broker. `wall`: null
    until it was read.
    """

    udp: ClockUdp | None
    why_not_udp: Text
    wall: WallClock | None
