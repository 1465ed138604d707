"""Device values: fibre ends, crossconnects, power, capabilities.

Each has one line of text that logs, command line, documents, tests and errors share: `ocs1.3A`, `h0.eth1/2.tx`,
`3A-17B`. Those that name something in a rack are that text, with its parts.
"""

import functools
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Self

import msgspec

from hwd_drivers.core.errors import ConfigError


class Side(StrEnum):
    """The end of a port that a fibre is plugged into."""

    A = "A"
    """First side of a two-sided switch: light enters here on a one-way switch."""
    B = "B"
    """Second side of a two-sided switch: light leaves here on a one-way switch."""
    TX = "tx"
    """Transmitter of a module."""
    RX = "rx"
    """Receiver of a module."""
    NONE = ""
    """The port has one fibre only: an any-to-any switch, a passive part."""

    __hash__ = str.__hash__  # right, as members compare as str; Enum's own hash is slow


_NATURAL = re.compile(r"(\d{1,18})")
"""Longer digits are read in parts: Python refuses to convert numbers of thousands of digits."""


KEPT_MOST: Final = 256
"""The longest text whose value is kept, in characters: those of a rack are short."""


@functools.lru_cache(maxsize=65_536)
def natural_key(named: object) -> tuple[tuple[int, int, str], ...]:
    """Sort key by the text of something, which puts `ocs1.9A` before `ocs1.10A`."""
    parts = _NATURAL.split(str(named))
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part)


class ValueText(str):
    """A name in a rack that is its text: made once, compared and hashed as text, written as it is; it knows its parts.

    A plain text never passes for one: it is read with `parse`, at the doors.
    """

    __slots__: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """The value of its own text; raises ConfigError on anything else."""
        made: Self = _parsed(cls, text) if len(text) <= KEPT_MOST else cls.read(text)
        return made

    @classmethod
    def read(cls, text: str) -> Self:
        """Read a text for `parse`, which keeps what it has read."""
        raise NotImplementedError

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, Any]]:
        return (), {part: getattr(self, part) for part in type(self).__slots__ if part != "_key"}


@functools.lru_cache(maxsize=65_536)
def _parsed(kind: type[ValueText], text: str) -> Any:
    return kind.read(text)


class PortSide(ValueText):
    """One fibre end of one switch, seen from that switch: `3A`, `17B`, `5` (any-to-any), `in`.

    `parse` raises ConfigError where the text is empty or has a character that no port name has.
    """

    __slots__ = ("_key", "port", "side")
    port: str
    side: Side
    _key: tuple[tuple[tuple[int, int, str], ...], str]

    def __new__(cls, *, port: str, side: Side = Side.NONE) -> Self:
        made = super().__new__(cls, port + side)
        made.port, made.side, made._key = port, side, (natural_key(port), side)
        return made

    @classmethod
    def read(cls, text: str) -> Self:
        if match := re.fullmatch(r"([0-9]+)([AB])", text):
            return cls(port=match[1], side=Side(match[2]))
        if re.fullmatch(r"[A-Za-z0-9_]+", text):
            return cls(port=text)
        raise ConfigError(f"port {text!r}: not a port; write 3A, 3B, or the name of a one-sided port such as 5 or in")

    def sort_key(self) -> tuple[tuple[tuple[int, int, str], ...], str]:
        return self._key


class FibreEnd(ValueText):
    """Where one glass fibre ends: an owner (switch, host, passive, packet switch), a port, a lane, a side.

    `lane` counts from 1 where every lane of a module has its own fibre (breakout, parallel optics). It is 0 where the
    fibre carries the whole port, as with wavelength-multiplexed modules and all switch ports.
    """

    __slots__ = ("lane", "owner", "port", "side")
    owner: str
    port: str
    lane: int
    side: Side

    def __new__(cls, *, owner: str, port: str, lane: int = 0, side: Side = Side.NONE) -> Self:
        before = "." if side in {Side.TX, Side.RX} else ""
        made = super().__new__(cls, f"{owner}.{port}{f'/{lane}' if lane else ''}{before}{side}")
        made.owner, made.port, made.lane, made.side = owner, port, lane, side
        return made

    @classmethod
    def read(cls, text: str) -> Self:
        if match := re.fullmatch(r"([^.]+)\.(.+?)(?:/([1-9][0-9]{0,3}))?(?:\.(tx|rx)|(?<=[0-9])([AB]))?", text):
            owner, port, lane, module_side, side = match.groups()
            return cls(owner=owner, port=port, lane=int(lane or 0), side=Side(module_side or side or ""))
        raise ConfigError(f"fibre end {text!r}: write it as ocs1.3A, h0.eth1.tx or h0.eth1/2.tx")

    @property
    def port_side(self) -> PortSide:
        return PortSide(port=self.port, side=self.side)

    def sort_key(self) -> tuple[tuple[tuple[int, int, str], ...], tuple[tuple[int, int, str], ...], int, str]:
        return natural_key(self.owner), natural_key(self.port), self.lane, self.side


class CrossconnectState(StrEnum):
    """The state of a crossconnect as a switch reports it or its twin computes it."""

    BLOCKED = "blocked"
    """Set, but dark because of a shutter or a port override."""
    TUNING = "tuning"
    """The mirrors are moving: light is not reliable."""
    TUNED = "tuned"
    """Light passes."""
    FAILED = "failed"
    """The switch reports that it could not make it."""
    UNSTATED = "unstated"
    """The crossconnect is set; this switch reports no more."""


class Crossconnect(ValueText):
    """One path inside one switch, without the switch's name: `1A-2B`; light goes from `a` to `b` on a one-way switch.

    Use `Crossconnect.parse("1A-2B")`. Where ports have one side only, a port with a word for a name is first (`in-3`),
    else the smaller one (`3-7`).
    """

    __slots__ = ("_key", "a", "b")
    a: PortSide
    b: PortSide
    _key: tuple[object, ...]

    def __new__(cls, *, a: PortSide, b: PortSide) -> Self:
        made = super().__new__(cls, f"{a}-{b}")
        made.a, made.b, made._key = a, b, (a.sort_key(), b.sort_key())
        return made

    @classmethod
    def read(cls, text: str) -> Self:
        """Read `1A-2B`, `2B-1A` (turned round) or `3-7`."""
        left, dash, right = text.strip().partition("-")
        if not dash:
            raise ConfigError(
                f"crossconnect {text!r}: write it as 1A-2B (side A to side B), or 3-7 on a one-sided switch"
            )
        return cls.of(PortSide.parse(left), PortSide.parse(right))

    @classmethod
    def of(cls, one: PortSide, other: PortSide) -> Self:
        """The crossconnect of two ends in any order; raises ConfigError for A-A, B-B and twice the same end."""
        if one == other:
            raise ConfigError(f"crossconnect {one}-{other}: a port cannot be joined to itself")
        if (one.side is Side.NONE) != (other.side is Side.NONE) or (
            one.side is other.side and one.side is not Side.NONE
        ):
            raise ConfigError(f"crossconnect {one}-{other}: one end must be on side A and the other on side B")
        if one.side is Side.B or (one.side is Side.NONE and _order_key(other) < _order_key(one)):
            one, other = other, one
        return cls(a=one, b=other)

    @property
    def ends(self) -> tuple[PortSide, PortSide]:
        return self.a, self.b

    def sort_key(self) -> tuple[object, ...]:
        return self._key


def _order_key(end: PortSide) -> tuple[bool, object]:
    """Sort key that decides which end of a one-sided crossconnect comes first."""
    return end.port[0].isdigit(), end.sort_key()


class CrossconnectReading(msgspec.Struct, frozen=True, kw_only=True):
    """One crossconnect as a switch reports it; `crossconnect` is `id` in the JSON."""

    crossconnect: Crossconnect = msgspec.field(name="id")
    state: CrossconnectState = CrossconnectState.UNSTATED

    def __str__(self) -> str:
        return f"{self.crossconnect} {self.state}"


class PowerReading(msgspec.Struct, frozen=True, kw_only=True):
    """Average optical power of a whole fibre at a switch port; `power_dbm` is None where the monitor sees no light."""

    end: PortSide
    power_dbm: float | None

    def __str__(self) -> str:
        return f"{self.end} dark" if self.power_dbm is None else f"{self.end} {self.power_dbm:.2f} dBm"


NOT_REPORTED: Final = "not reported"
"""Identity fields that a device does not report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Identity that a device reports. `uptime_s`: its uptime if it reports one; it does not count in comparisons."""

    vendor: str
    model: str
    serial: str
    firmware: str
    uptime_s: float | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.vendor} {self.model} serial {self.serial} firmware {self.firmware}"


class PortOverride(StrEnum):
    """State that a switch forces on a fibre end, whatever crossconnect it belongs to."""

    NORMAL = "normal"
    """Light passes where a crossconnect is tuned."""
    FORCE_BLOCKED = "force-blocked"
    """Dark by a shutter or a disabled port; the crossconnect stays."""


class AttenuationMode(StrEnum):
    """Mode of a variable attenuator of a switch."""

    NONE = "none"
    """No attenuation is set."""
    FIXED = "fixed"
    """Keeps its present value."""
    MAXIMUM = "maximum"
    """The highest attenuation."""
    ABSOLUTE = "absolute"
    """The output is held at a power, in dBm."""
    RELATIVE = "relative"
    """The output is held at so many dB under a reference port."""
    CONVERGED = "converged"
    """As ABSOLUTE until it is reached, then held there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attenuation:
    """The attenuator at one end: `level` in dBm (ABSOLUTE, CONVERGED) or dB (RELATIVE), else None."""

    end: PortSide
    mode: AttenuationMode
    level: float | None = None
    reference: PortSide | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """A part of a switch that moves as one: a 1xN selector, a 2x2 in bar or cross state.

    It is always in exactly one of its `states`. A state is the set of its crossconnects; an empty one is dark. Elements
    of a switch share no end.
    """

    name: str
    states: tuple[tuple[Crossconnect, ...], ...]
    state_sets: tuple[frozenset[Crossconnect], ...] = field(init=False, repr=False, compare=False)
    """`states`, to be compared."""
    crossconnects: frozenset[Crossconnect] = field(init=False, repr=False, compare=False)
    """All crossconnects that it can make, in any state."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "state_sets", tuple(map(frozenset, self.states)))
        object.__setattr__(self, "crossconnects", frozenset[Crossconnect]().union(*self.states))


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Abilities and limits of a switch; fixed while connected.

    `ends`: all fibre ends. `moves_in_use`: connecting a used end drops the old crossconnect (Polatis); others refuse
    (Calient). `reciprocal`: light passes both ways. `latching`: it keeps its crossconnects without power.
    `atomic_batches`: a list is done completely or not at all. `settle_s`: stated switching time. `loss_db_typical`,
    `loss_db_max`: stated insertion loss of one crossconnect. `monitored`: ends with a power monitor. `blockable`: ends
    that an override can make dark. `attenuated`: ends with a variable attenuator. `elements`: parts with few states
    each; empty where any end can be joined with any on the other side. `reports_before`: a change reports the state
    just before it (`Exchange.before`). `input_max_dbm`: the strongest light of a fibre that it bears; None where its
    maker does not state it.
    """

    ends: tuple[PortSide, ...]
    two_sided: bool
    reciprocal: bool
    latching: bool
    atomic_batches: bool
    moves_in_use: bool
    settle_s: float
    loss_db_typical: float
    loss_db_max: float
    monitored: tuple[PortSide, ...] = ()
    blockable: tuple[PortSide, ...] = ()
    attenuated: tuple[PortSide, ...] = ()
    elements: tuple[Element, ...] = ()
    reports_before: bool = False
    input_max_dbm: float | None = None

    def moved_by(self, crossconnects: Iterable[Crossconnect]) -> tuple[str, ...]:
        """The parts that move where these crossconnects change: elements, else the ends, each with a mirror."""
        changed = frozenset(crossconnects)
        if self.elements:
            return tuple(one.name for one in self.elements if not changed.isdisjoint(one.crossconnects))
        return tuple(sorted({end for one in changed for end in one.ends}, key=natural_key))


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Times of one change: when it was sent and when the switch answered, as `Clock.monotonic_ns` of this host.

    `commanded_ns`: just before the first byte of the first command. `acknowledged_ns`: when the last answer was
    complete. `commands`: number of commands that changed something. `before`: the crossconnects when the switch took
    the change, read together with it, which shows changes by other clients since our last read; None where the driver
    cannot ask.
    """

    commanded_ns: int
    acknowledged_ns: int
    commands: int
    before: tuple[Crossconnect, ...] | None = None


def sum_dbm(*powers_dbm: float) -> float:
    """Add powers in dBm: four equal lanes are 6.02 dB over one of them."""
    return 10 * math.log10(sum(10 ** (power / 10) for power in powers_dbm))
