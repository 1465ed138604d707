"""The facts that a supervisor tells of its switch: one type for each kind of document."""

from typing import ClassVar

from msgspec import UNSET, UnsetType

from hwd_drivers.core.documents import Fact
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, PortOverride, PortSide


class SwitchFact(Fact, frozen=True, kw_only=True):
    """A fact of one switch. `host` names the host that drives it; UNSET where the daemon does."""

    switch: str


class SwitchUp(SwitchFact, frozen=True, kw_only=True):
    """A session began. `down_s`: since the last one ended, 0 at the first."""

    KIND: ClassVar = "switch.up"
    vendor: str
    model: str
    serial: str
    firmware: str
    down_s: float
    host: str | UnsetType = UNSET


class SwitchDown(SwitchFact, frozen=True, kw_only=True):
    """A session ended, or none could be begun."""

    KIND: ClassVar = "switch.down"
    cause: str
    host: str | UnsetType = UNSET


class SwitchRestarted(SwitchFact, frozen=True, kw_only=True):
    """A switch was restarted between two sessions. `sign`: uptime (the switch reports it), at-rest (it has none of its
    crossconnects: likely).

    `lost`: the crossconnects that it had; `unheard_s`: since it was last read.
    """

    KIND: ClassVar = "switch.restarted"
    sign: str
    lost: list[Crossconnect]
    uptime_s: float | None
    unheard_s: float
    host: str | UnsetType = UNSET


class SwitchRead(SwitchFact, frozen=True, kw_only=True):
    """A switch was read after a change. `ours`: we had asked for it, or a restart of the switch explains it."""

    KIND: ClassVar = "switch.read"
    crossconnects: list[CrossconnectReading]
    added: list[Crossconnect]
    removed: list[Crossconnect]
    ours: bool
    host: str | UnsetType = UNSET


class SwitchCommand(SwitchFact, frozen=True, kw_only=True):
    """One command and its outcome: done, denied, lost, timeout, garbled.

    `moved`: elements, else fibre ends, that it moved, or may have moved where it was sent and not done.
    """

    KIND: ClassVar = "switch.command"
    verb: str
    outcome: str
    seconds: float
    code: str
    text: str
    moved: list[str] | UnsetType = UNSET
    host: str | UnsetType = UNSET


class SwitchPower(SwitchFact, frozen=True, kw_only=True):
    """Optical power by fibre end, in dBm; None where dark."""

    KIND: ClassVar = "switch.power"
    power_dbm: dict[PortSide, float | None]
    host: str | UnsetType = UNSET


class SwitchOverride(SwitchFact, frozen=True, kw_only=True):
    """An override of fibre ends began or ended. `by`: who asked us, or that we did not ask for it."""

    KIND: ClassVar = "switch.override"
    ends: list[PortSide]
    to: PortOverride
    by: str
    host: str | UnsetType = UNSET
