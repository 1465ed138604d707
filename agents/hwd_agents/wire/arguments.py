"""The arguments of each command.

An agent checks them before it does anything; `Command` explains them.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Generic, TypeVar, cast

import msgspec
from msgspec import Meta

from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import from_plain

from .answers import Changed, Delegated, Held, Observations, Refreshed, Resent, Restored
from .bounds import PORTS_MOST, Boot, ByName, Name, Number, Seconds, Seq, SettingState, Text, UdpPort, check_ip
from .notes import VerbsAddress

A = TypeVar("A", bound=msgspec.Struct)


class Arguments(msgspec.Struct, Generic[A], frozen=True, kw_only=True):
    """The arguments of one command. `A` is the data of its reply with the outcome `done`."""

    VERB: ClassVar[str]
    ANSWER: ClassVar[type[msgspec.Struct]]

    def answer(self, data: Mapping[str, Any]) -> A:
        """Read the data of a reply. Raises ProtocolError, which names the first wrong field."""
        try:
            return cast("A", from_plain(data, self.ANSWER))
        except (msgspec.ValidationError, RecursionError) as error:
            raise ProtocolError(f"its data cannot be read: {reason_of(error)}") from error


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


class Observe(Arguments[Observations], frozen=True, kw_only=True):
    """Sample light at the high rate, and probe until the link is ready or `for_s` is over."""

    VERB = "observe"
    ANSWER = Observations

    reconfiguration: Name
    peers: Annotated[list[Peer], Meta(max_length=PORTS_MOST)]
    for_s: Seconds


class Settle(Arguments[Observations], frozen=True, kw_only=True):
    """Stop observing the reconfiguration."""

    VERB = "settle"
    ANSWER = Observations

    reconfiguration: Name


class Resend(Arguments[Resent], frozen=True, kw_only=True):
    """Send these events again."""

    VERB = "resend"
    ANSWER = Resent

    boot: Boot
    from_seq: Seq
    upto_seq: Seq


class Refresh(Arguments[Refreshed], frozen=True, kw_only=True):
    """Read everything now."""

    VERB = "refresh"
    ANSWER = Refreshed


class SetPort(Arguments[Changed], frozen=True, kw_only=True):
    """Change a setting of a port for a run."""

    VERB = "set"
    ANSWER = Changed

    run: Name
    port: Name
    setting: Name
    value: SettingState
    for_s: Seconds | None = None


class HoldSettings(Arguments[Held], frozen=True, kw_only=True):
    """Keep the settings of the run for `for_s` from now on."""

    VERB = "hold"
    ANSWER = Held

    run: Name
    for_s: Seconds


class PutBack(Arguments[Restored], frozen=True, kw_only=True):
    """Restore all settings that the run changed."""

    VERB = "put-back"
    ANSWER = Restored

    run: Name


class Delegate(Arguments[Delegated], frozen=True, kw_only=True):
    """Grant leases: the epoch by switch."""

    VERB = "delegate"
    ANSWER = Delegated

    grants: ByName[Number] = {}


class TakeBack(Arguments[Delegated], frozen=True, kw_only=True):
    """Take a lease back: the host may not set the switch any more."""

    VERB = "take-back"
    ANSWER = Delegated

    switch: Name
    epoch: Number
    why: Text
