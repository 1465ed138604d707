"""The data of replies with the outcome `done`.

The daemon checks it before it uses it.
"""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from .bounds import ENDS_MOST, PORTS_MOST, At, ByName, Name, Number, SettingState, Span, Text
from .notes import PortNote, SwitchNote


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """The observation of a state (light, firmware, carrier, rdma, ready) from `from_ns` to `upto_ns`.

    `seen` false: the state could not be observed, `why_not` says why, and the instant is unknown. `lost` 0, `at_begin`
    true and `longest_gap_ns` within what the source latches: the state was never left. `latched`: losses between two
    samples are counted too (pushed by the kernel, counted by it, or held by the module until read); where it is false,
    one that was shorter than `longest_gap_ns` may have been missed. `looks`: samples, or notices.
    """

    seen: bool
    why_not: Text = ""
    at_begin: bool | None = None
    now: bool | None = None
    lost: Number = 0
    latched: bool = False
    looks: Number = 0
    failed: Number = 0
    longest_gap_ns: Span = 0
    from_ns: At = 0
    upto_ns: At = 0


class Observations(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `observe` and `settle`: by port, the observations of light, firmware, carrier, rdma and ready."""

    at_ns: At | UnsetType = UNSET
    ports: ByName[ByName[Observation]]


class Resent(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `resend`: how many of these events are still in the spool, and the oldest event of the current
    boot.
    """

    here: Number | UnsetType = UNSET
    oldest_seq: Number | UnsetType = UNSET


class Refreshed(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `refresh`: the ports and their states at `at_ns`."""

    at_ns: At
    ports: ByName[PortNote]
    states: ByName[ByName[bool | None]]


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `set`: the two states, as the host read them."""

    before: SettingState
    after: SettingState


class Back(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that was restored."""

    port: Name
    setting: Name
    state: SettingState


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that was not restored, and why."""

    port: Name
    setting: Name
    why: Text


Backs = Annotated[list[Back], Meta(max_length=16 * PORTS_MOST)]
Lefts = Annotated[list[Left], Meta(max_length=16 * PORTS_MOST)]


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `put-back`: the settings that were put back, and those that are left."""

    back: Backs
    left: Lefts


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `hold`: how many settings are still set, and which ones the agent restored since no `hold` came."""

    held: Number
    back: Backs


class AnsweredCrossconnect(msgspec.Struct, frozen=True, kw_only=True):
    """One crossconnect as its switch reports it. `state` may be one that only a later version knows."""

    id: Name
    state: Name


class SwitchState(SwitchNote, frozen=True, kw_only=True):
    """A switch with its crossconnects; null while it is down."""

    crossconnects: Annotated[list[AnsweredCrossconnect], Meta(max_length=ENDS_MOST)] | None = None


class Delegated(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `delegate` and `take-back`: all switches of the host, and why a grant was refused, by switch."""

    switches: ByName[SwitchState] = {}
    refused: ByName[Text] = {}
