"""Wiring: the line of each function of each part; an option in testbeds, also of the twin."""

from collections.abc import Iterable
from itertools import chain
from typing import Final

from pydantic import Field, model_validator

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import Capabilities
from hwd_drivers.devices.registry import Options

LINES_A_PART: Final = 4
"""Without a wiring, part n has so many lines from 4(n-1) on: two to move it and two contacts."""


class Part(Options):
    """One 1x2 or 2x2. Its first state is `in-1` or bar, its second `in-2` or cross."""

    level: int | None = Field(
        default=None, ge=0, description="a line that is held: low in the first state, high in the second"
    )
    pulse: tuple[int, int] | None = Field(
        default=None, description="the coils of a latching relay: a pulse on the first or second line moves it there"
    )
    contacts: tuple[int, int] | None = Field(
        default=None, description="lines of the position contacts: the first is high in the first state, and so on"
    )
    pulse_s: float = Field(default=0.02, gt=0, le=1.0, description="width of a pulse")
    settle_s: float = Field(
        default=0.01, ge=0, le=10.0, description="without contacts: the time after the last edge until light passes"
    )
    moves_within_s: float = Field(
        default=0.5, gt=0, le=60.0, description="with contacts: the longest until they say that it is there"
    )

    @model_validator(mode="after")
    def _has_one_drive(self) -> "Part":
        if (self.level is None) == (self.pulse is None):
            raise ValueError("a part needs exactly one of level and pulse")
        return self

    @property
    def driven(self) -> tuple[int, ...]:
        """The lines that move it."""
        return self.pulse if self.pulse is not None else () if self.level is None else (self.level,)

    @property
    def lines(self) -> tuple[int, ...]:
        return (*self.driven, *(self.contacts or ()))

    @property
    def shown_by(self) -> tuple[int, ...]:
        """The lines that show its state: its contacts, or else the line that holds it."""
        if self.contacts is not None:
            return self.contacts
        return () if self.level is None else (self.level,)


class Wiring(Options):
    """The parts of one bank, in the order of the elements of the switch."""

    parts: tuple[Part, ...] = Field(
        default=(),
        description="lines of each part; left out, part n has lines from 4(n-1) on: coils (or level), then contacts",
    )
    active_low: tuple[int, ...] = Field(default=(), description="lines whose low is what is called high above")

    def parts_of(self, name: str, capabilities: Capabilities) -> tuple[Part, ...]:
        """One part for each element. Raises ConfigError for another number of parts, or a line that is used twice."""
        count = len(capabilities.elements)
        parts = self.parts or tuple(_usual(number, latching=capabilities.latching) for number in range(count))
        if len(parts) != count:
            raise ConfigError(f"{name}: parts in options.parts: {len(parts)}, elements of the switch: {count}")
        used: set[int] = set()
        for line in chain.from_iterable(part.lines for part in parts):
            if line in used:
                raise ConfigError(f"{name}: options.parts: line {line} is used twice")
            used.add(line)
        if unknown := sorted(set(self.active_low) - used):
            raise ConfigError(f"{name}: options.active_low: {_named(unknown)} of no part")
        return parts

    def level(self, line: int, active: bool) -> bool:
        """The level on the wire of a line that is active or not."""
        return active is not (line in self.active_low)


def _usual(number: int, *, latching: bool) -> Part:
    first = LINES_A_PART * number
    contacts = (first + 2, first + 3)
    return Part(pulse=(first, first + 1), contacts=contacts) if latching else Part(level=first, contacts=contacts)


def _named(lines: Iterable[int]) -> str:
    return f"line {', '.join(map(str, lines))} is"
