"""The arguments of each command, by its verb.

An agent checks them before it does anything; `Command` explains them.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from .bounds import PORTS_MOST, Boot, ByName, Name, Number, Seconds, Seq, SettingState, Text, UdpPort, check_ip


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


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """The port that another port shall reach at the other end of its link.

    `kept`: the reconfiguration does not change the link. `peer_verbs`: its address for probes by RDMA; None
    without them.
    """

    port: Name
    peer: Name
    peer_ip: Name
    peer_probe_port: UdpPort
    kept: bool
    peer_verbs: VerbsAddress | None = None

    def __post_init__(self) -> None:
        """Check that `peer_ip` is numeric: a name would go to the resolver, which blocks."""
        check_ip(f"peer_ip of {self.port}", self.peer_ip)


class Observe(msgspec.Struct, frozen=True, kw_only=True):
    """Sample light at the high rate, and probe until the link is ready or `for_s` is over."""

    reconfiguration: Name
    peers: Annotated[list[Peer], Meta(max_length=PORTS_MOST)]
    for_s: Seconds


class Settle(msgspec.Struct, frozen=True, kw_only=True):
    """Stop observing the reconfiguration."""

    reconfiguration: Name


class Resend(msgspec.Struct, frozen=True, kw_only=True):
    """Send these events again."""

    boot: Boot
    from_seq: Seq
    upto_seq: Seq


class Refresh(msgspec.Struct, frozen=True, kw_only=True):
    """Read everything now."""


class SetPort(msgspec.Struct, frozen=True, kw_only=True):
    """Change a setting of a port for a run."""

    run: Name
    port: Name
    setting: Name
    value: SettingState
    for_s: Seconds | None = None


class HoldSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Keep the settings of the run for `for_s` from now on."""

    run: Name
    for_s: Seconds


class PutBack(msgspec.Struct, frozen=True, kw_only=True):
    """Restore all settings that the run changed."""

    run: Name


class Delegate(msgspec.Struct, frozen=True, kw_only=True):
    """Grant leases: the epoch by switch."""

    grants: ByName[Number] = {}


class TakeBack(msgspec.Struct, frozen=True, kw_only=True):
    """Take a lease back: the host may not set the switch any more."""

    switch: Name
    epoch: Number
    why: Text


ARGUMENTS: Final[Mapping[str, Any]] = {
    "observe": Observe,
    "settle": Settle,
    "resend": Resend,
    "refresh": Refresh,
    "set": SetPort,
    "hold": HoldSettings,
    "put-back": PutBack,
    "delegate": Delegate,
    "take-back": TakeBack,
}
"""By verb."""
