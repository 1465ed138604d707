"""PortMap: the unit's port names (`3.2.8`: shelf, module, port) and our numbers for them.

In both protocols port n is the n-th of those that the unit lists, sorted by the parts of their names as numbers. A name
is never computed from a number, so the mapping does not depend on the number of shelves and modules of a model. `nA` is
the IN fibre of port n, `nB` its OUT fibre.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hwd_drivers.core.errors import ConfigError, ProtocolError
from hwd_drivers.core.values import Crossconnect, PortSide, Side, natural_key

NAME_PATTERN: Final = r"[0-9A-Za-z]{1,6}(?:\.[0-9A-Za-z]{1,6}){2}(?:/[0-9]{1,3})?"
"""Three parts. Older units had letters in the second (`10.13a.1`); one program expects a `/n` after the third."""
NAME: Final = re.compile(NAME_PATTERN)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortMap:
    """Names of the ports of one unit in the order of our numbers."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, listed: Iterable[str]) -> "PortMap":
        """Make the map from the names that a unit lists, in any order.

        Raises ProtocolError for an invalid or duplicate name.
        """
        names = tuple(sorted(listed, key=natural_key))
        for name in names:
            if not NAME.fullmatch(name):
                raise ProtocolError(f"port {name[:40]!r}: not a name such as 3.2.8")
        if len(set(names)) != len(names):
            twice = next(name for name, times in Counter(names).items() if times > 1)
            raise ProtocolError(f"port {twice}: listed twice")
        return cls(names=names)

    def numbers(self) -> dict[str, int]:
        """Our number by the unit's name."""
        return {name: number for number, name in enumerate(self.names, start=1)}

    def name(self, end: PortSide) -> str:
        """The unit's name of the port of this end. Raises ConfigError for an unknown port."""
        number = int(end.port) if end.port.isascii() and end.port.isdigit() and len(end.port) < 7 else 0
        if end.side not in (Side.A, Side.B) or not 1 <= number <= len(self.names):
            raise ConfigError(f"port {end}: the switch has ports 1 to {len(self.names)}, each with an A and a B")
        return self.names[number - 1]


def one_way(source: int, destination: int) -> Crossconnect:
    """Light into the IN fibre of one port, out of the OUT fibre of another or the same."""
    return Crossconnect(a=PortSide(port=str(source), side=Side.A), b=PortSide(port=str(destination), side=Side.B))


def identifier(source: str, destination: str, *, two_way: bool) -> str:
    """The name in a unit's list of a connection without its own name: `1.1.1-1.1.2` (2WAY), `1.1.1>1.1.2` (1WAY)."""
    return f"{source}{'-' if two_way else '>'}{destination}"
