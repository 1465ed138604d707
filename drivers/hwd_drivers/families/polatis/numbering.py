"""Port numbers of a Polatis unit, the same in all of its protocols."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.unit_error import UnitError, Wrong
from hwd_drivers.core.values import Crossconnect, PortSide, Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbering:
    """Port numbers of a unit: inputs 1..N (side A), outputs N+1..N+M (side B); without outputs any-to-any, 1..N."""

    inputs: int
    outputs: int

    @classmethod
    def of(cls, ends: Iterable[PortSide]) -> "Numbering":
        """The numbering of a switch with these fibre ends."""
        sides = [end.side for end in ends]
        return cls(inputs=len(sides) - sides.count(Side.B), outputs=sides.count(Side.B))

    def __str__(self) -> str:
        return f"{self.inputs}x{self.outputs}"

    @property
    def total(self) -> int:
        return self.inputs + self.outputs

    def number(self, end: PortSide) -> int:
        """Raises ConfigError for an unknown end."""
        wanted = (Side.A, Side.B) if self.outputs else (Side.NONE,)
        limit = self.outputs if end.side is Side.B else self.inputs
        if end.side not in wanted or not _NUMBER.fullmatch(end.port) or not 1 <= int(end.port) <= limit:
            raise ConfigError(f"port {end}: a unit of {self} has no such port")
        return int(end.port) + (self.inputs if end.side is Side.B else 0)

    def end(self, number: int) -> PortSide:
        """Raises UnitError for an unknown number."""
        if not 1 <= number <= self.total:
            raise UnitError(Wrong.PORT, f"Invalid OXC port: {number}")
        if not self.outputs:
            return PortSide(port=str(number))
        if number <= self.inputs:
            return PortSide(port=str(number), side=Side.A)
        return PortSide(port=str(number - self.inputs), side=Side.B)

    def crossconnect(self, one: int, other: int) -> Crossconnect:
        """Raises UnitError for ports that cannot be joined."""
        try:
            return Crossconnect.of(self.end(one), self.end(other))
        except ConfigError:
            text = (
                f"Ports {one} and {other} are on the same side"
                if one != other
                else f"Port {one} cannot be joined to itself"
            )
            raise UnitError(Wrong.SIDE, text) from None


_NUMBER = re.compile(r"[0-9]{1,9}")
