"""Switches, composites and links as they were reported: documents, and what callers see."""

from collections.abc import Iterable
from typing import ClassVar, Literal

from msgspec import UNSET, UnsetType, field
from typing_extensions import override

from hwd.model.api_value import ApiValue
from hwd.model.hang import Hang
from hwd.model.lease import SwitchLease
from hwd.model.link import Link
from hwd.model.plural import plural
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, PortSide
from hwd_drivers.devices.facts import SwitchFact


class SwitchOverrun(SwitchFact, frozen=True, kw_only=True):
    """A write of ours removed crossconnects (`lost`) that another client made between our read and that write."""

    KIND: ClassVar = "switch.overrun"
    reconfiguration: str
    lost: list[Crossconnect]
    window_s: float


class SwitchDrift(SwitchFact, frozen=True, kw_only=True):
    """How a switch differs from the desired state, after each change of that.

    `missing`: wanted crossconnects that it lacks; `stale`: crossconnects at ends of which something else is wanted.
    Ports of reconfigurations in progress do not count. `given_up`: fibre ends that the drift policy restores no more,
    `3A`, since it has tried in vain or was undone again.
    """

    KIND: ClassVar = "switch.drift"
    missing: list[Crossconnect]
    stale: list[Crossconnect]
    given_up: list[PortSide] = field(default_factory=list)


class SwitchAdopted(SwitchFact, frozen=True, kw_only=True):
    """The state found at a switch is desired from here on: crossconnects, and fibre ends that shall have none."""

    KIND: ClassVar = "switch.adopted"
    crossconnects: list[Crossconnect]
    free: list[PortSide]
    by: str


class SwitchUnknown(SwitchFact, frozen=True, kw_only=True):
    """A host drives this switch, and its state is unknown now."""

    KIND: ClassVar = "switch.unknown"
    cause: str
    host: str


class SwitchRefused(SwitchFact, frozen=True, kw_only=True):
    """A host claims a switch that it does not own."""

    KIND: ClassVar = "switch.refused"
    host: str
    why: str


NOT_ENDED = "not ended"
"""The outcome of a reconfiguration that was cut off and whose end is not known."""


class SwitchChange(ApiValue, frozen=True, kw_only=True):
    """The last change of the crossconnects of a switch, and who made it.

    `origin`: `reconfiguration`, of this daemon; `host`, whose job set it; `restart`, in which it lost crossconnects;
    `other`, not by this daemon: another client, the front panel. The last two have the time when they were found.
    `added`, `removed`: crossconnects such as `1A-2B`; of a reconfiguration what it asked for, which a roll-back has
    undone again. `reconfiguration`, `what`, `outcome`, `run` are those of the first two; the outcome of one that is
    under way is its state, such as `awaiting-confirm`. `lease`: the one under which it was asked for, with its
    `holder`; None without one, left out where that was not recorded.
    """

    wall_ns: int
    origin: Literal["reconfiguration", "host", "restart", "other"]
    added: list[Crossconnect]
    removed: list[Crossconnect]
    reconfiguration: str | None = None
    what: str = ""
    outcome: str | None = None
    run: str | None = None
    host: str | None = None
    lease: str | UnsetType | None = UNSET
    holder: str | None = None

    @property
    def by(self) -> str:
        """Who made it: `run k3v9`, `lease a1 of ada`, `apply without a lease`; empty where that was not recorded."""
        match self.origin:
            case "host":
                return f"host {self.host}"
            case "restart":
                return "a restart of the switch"
            case "other":
                return "not by this daemon"
        if self.run is not None:
            return f"run {self.run}"
        if self.lease is UNSET:
            return ""
        if self.lease is None:
            return "apply without a lease"
        return f"lease {self.lease}{f' of {self.holder}' if self.holder else ''}"

    @override
    def __str__(self) -> str:
        """`reconfiguration k3v9 (pairs rail=0), confirmed, lease a1 of ada`."""
        if self.reconfiguration is None:
            pairs = [*(f"+{one}" for one in self.added), *(f"-{one}" for one in self.removed)]
            return f"{self.by}: {' '.join(pairs)}"
        what = f" ({self.what})" if self.what else ""
        return ", ".join(filter(None, (f"reconfiguration {self.reconfiguration}{what}", self.outcome, self.by)))


class OverrunReport(ApiValue, frozen=True, kw_only=True):
    """An overrun. `lost`: crossconnects of another client that it made between the daemon's read and its write, which
    are `window_s` apart, and that the write removed.
    """

    wall_ns: int
    reconfiguration: str
    lost: list[Crossconnect]
    window_s: float


class RestartReport(ApiValue, frozen=True, kw_only=True):
    """A restart of a switch between two sessions. `sign`: `uptime` where the switch reports it, `at-rest` where it has
    none of its crossconnects, which is likely a restart. `lost`: the crossconnects that it had. `unheard_s`: since it
    was last read. `missing`: those of `lost` whose ends are still free.
    """

    wall_ns: int
    sign: str
    lost: list[Crossconnect]
    uptime_s: float | None
    unheard_s: float
    missing: list[Crossconnect]


class HeldEnds(ApiValue, frozen=True, kw_only=True):
    """Fibre ends of a switch that an override holds dark (`to` force-blocked), or releases (normal).

    `blocked`: all ends that the switch holds dark since.
    """

    switch: str
    ends: list[PortSide]
    to: str
    blocked: list[PortSide]

    @override
    def __str__(self) -> str:
        return f"{self.switch}: {', '.join(self.ends)} {self.to}, {plural(len(self.blocked), 'end')} held dark"


class SwitchStatus(ApiValue, frozen=True, kw_only=True):
    """One switch as it was reported last; `up` false says that this may be old.

    `up` is None for a switch of a host whose state is unknown. `owner`: that host; None for a switch of the daemon.
    `readings` is `crossconnects` in the JSON. `blocked`: ends that an override holds dark. `lease`: of the host that
    drives it. `since_wall_ns`: when the daemon saw the present state of `up` begin, None where it did not.
    `last_change`: of its crossconnects; None where none is known or recorded lately.
    """

    switch: str
    owner: str | None
    up: bool | None
    cause: str
    since_wall_ns: int | None = None
    vendor: str | None = None
    model: str | None = None
    serial: str | None = None
    firmware: str | None = None
    readings: list[CrossconnectReading] = field(name="crossconnects", default_factory=list)
    power_dbm: dict[PortSide, float | None] = field(default_factory=dict)
    blocked: list[PortSide] = field(default_factory=list)
    overruns: list[OverrunReport] = field(default_factory=list)
    restart: RestartReport | None = None
    lease: SwitchLease | None = None
    last_change: SwitchChange | None = None

    @property
    def name(self) -> str:
        return self.switch

    @property
    def crossconnects(self) -> tuple[Crossconnect, ...]:
        """The crossconnects as the switch last reported them."""
        return tuple(one.crossconnect for one in self.readings)

    @override
    def __str__(self) -> str:
        state = f"down: {self.cause}" if self.up is False else "up" if self.up else f"unknown: {self.cause}"
        dark = f", {', '.join(self.blocked)} held dark" if self.blocked else ""
        return f"{self.name} {state}, {plural(len(self.readings), 'crossconnect')}{dark}"


class CompositeStatus(ApiValue, frozen=True, kw_only=True):
    """A composite switch: the crossconnects that its elements make together, `crossconnects` in the JSON.

    `switches`: those of its elements; `away`: those of them that are down.
    """

    composite: str
    switches: list[str]
    away: list[str]
    readings: list[CrossconnectReading] = field(name="crossconnects")

    @property
    def name(self) -> str:
        return self.composite

    @property
    def crossconnects(self) -> tuple[Crossconnect, ...]:
        return tuple(one.crossconnect for one in self.readings)

    @override
    def __str__(self) -> str:
        state = f"{', '.join(self.away)} down" if self.away else "up"
        return f"{self.name} {state}, {plural(len(self.readings), 'crossconnect')}"


class LinkStatus(ApiValue, frozen=True, kw_only=True):
    """A link that crossconnects make now. `carrier`: both ends have it.

    `away`: switches on its way that are down. Nobody knows then whether there is light, and `carrier` is None.
    `since_wall_ns`: since when `carrier` is so, by the events of its ends and the reads of its switches; None where the
    daemon did not see it begin, such as a carrier that was there when the agent connected.
    `hang`: the stage that it does not get past; None where it is up, and where nothing of it is known.
    `made_wall_ns`: when the last of its crossconnects was made; None where the daemon saw none of them made.
    """

    link: Link
    carrier: bool | None
    away: list[str] = field(default_factory=list)
    since_wall_ns: int | None = None
    hang: Hang | None = None
    made_wall_ns: int | None = None


def still_missing(missing: Iterable[Crossconnect], added: Iterable[Crossconnect]) -> list[Crossconnect]:
    """The crossconnects that a switch lost and whose ends are still free, after it has made others."""
    taken = {end for one in added for end in one.ends}
    return [one for one in missing if taken.isdisjoint(one.ends)]
