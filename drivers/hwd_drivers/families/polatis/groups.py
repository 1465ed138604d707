"""Groups of ports of a Polatis unit, which are connected as one: state of the unit apart from the crossconnects.

Source: the vendor's YANG modules (`optical-switch` 2018-03-22, container groups; `polatis-switch`, rpcs add- and
delete-group-cross-connect). Two groups are connected where their ports are, in the order of their lists, the inputs of
each with the outputs of the other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hwd_drivers.core.unit_error import UnitError, Wrong
from hwd_drivers.families.polatis.numbering import Numbering

NAME_LIMIT: Final = 64
"""Most characters of a group's name; no source documents the limit."""
GROUPS_LIMIT: Final = 256
"""Most groups; no source documents the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One group; `ingress` are inputs, or ports of a unit without sides, `egress` are outputs."""

    name: str
    ingress: tuple[int, ...] = ()
    egress: tuple[int, ...] = ()

    @property
    def ports(self) -> tuple[int, ...]:
        return (*self.ingress, *self.egress)


class Groups:
    """The groups of one unit. Raises UnitError for refused wishes."""

    def __init__(
        self,
        *,
        numbering: Numbering,
        pairs: Callable[[], Sequence[tuple[int, int]]],
        connect: Callable[[Sequence[tuple[int, int]]], float],
        disconnect: Callable[[Sequence[int]], float],
    ) -> None:
        self._numbering = numbering
        self._pairs = pairs
        self._connect = connect
        self._disconnect = disconnect
        self._groups: dict[str, Group] = {}

    def all(self) -> tuple[Group, ...]:
        """Groups in the order of their names."""
        return tuple(self._groups[name] for name in sorted(self._groups))

    def find(self, name: str) -> Group:
        if name not in self._groups:
            raise UnitError(Wrong.NAME, f"There is no group {name[:NAME_LIMIT]}")
        return self._groups[name]

    def check(self, group: Group) -> None:
        """Raises UnitError for a group that this unit cannot have."""
        if not 0 < len(group.name) <= NAME_LIMIT or not group.name.isprintable():
            raise UnitError(Wrong.VALUE, f"Group name of 0 or over {NAME_LIMIT} characters, or one that is not allowed")
        for port in group.ports:
            self._numbering.end(port)
        inputs = self._numbering.inputs
        for port, is_input in [*((port, True) for port in group.ingress), *((port, False) for port in group.egress)]:
            if (port <= inputs) is not is_input:
                raise UnitError(Wrong.SIDE, f"Port {port} of group {group.name} is no {'in' if is_input else 'out'}put")
        if len(set(group.ports)) != len(group.ports):
            raise UnitError(Wrong.LIST, f"A port stands twice in group {group.name}")

    def define(self, group: Group) -> None:
        """Add the group, or replace the one of this name."""
        self.check(group)
        if group.name not in self._groups and len(self._groups) >= GROUPS_LIMIT:
            raise UnitError(Wrong.LIST, f"There are {GROUPS_LIMIT} groups already")
        self._groups[group.name] = group

    def remove(self, name: str) -> None:
        """Remove a group; its ports stay connected."""
        self._groups.pop(self.find(name).name)

    def connect(self, one: str, other: str) -> float:
        """Join two groups; returns the seconds until the answer.

        Ports in use move, or are refused, as for any pairs.
        """
        first, second = self.find(one), self.find(other)
        if first is second:
            raise UnitError(Wrong.VALUE, f"Group {one} cannot be connected to itself")
        wanted = self._joined(first, second)
        if not wanted:
            raise UnitError(
                Wrong.LIST, f"Groups {one} and {other} do not have as many inputs as outputs for each other"
            )
        return self._connect(wanted)

    def disconnect(self, name: str) -> float:
        """Remove the crossconnects of all ports of the group."""
        return self._disconnect(self.find(name).ports)

    def connected(self) -> Mapping[str, str]:
        """The group that each connected group is joined to, by name."""
        peers = {port: peer for one, other in self._pairs() for port, peer in ((one, other), (other, one))}
        by_ports: dict[tuple[tuple[int, ...], tuple[int, ...]], list[str]] = {}
        for group in self.all():
            by_ports.setdefault((group.ingress, group.egress), []).append(group.name)
        found: dict[str, str] = {}
        for group in self.all():
            ingress, egress = (tuple(peers.get(port, 0) for port in ports) for ports in (group.ingress, group.egress))
            there = by_ports.get((egress, ingress) if self._numbering.outputs else (ingress, egress), [])
            if group.ports and (other := next((name for name in there if name != group.name), "")):
                found[group.name] = other
        return found

    def _joined(self, one: Group, other: Group) -> list[tuple[int, int]]:
        """The pairs that connect them; none where their ports do not match."""
        if not self._numbering.outputs:
            fits, lists = len(one.ingress) == len(other.ingress), [(one.ingress, other.ingress)]
        else:
            fits = len(one.ingress) == len(other.egress) and len(other.ingress) == len(one.egress)
            lists = [(one.ingress, other.egress), (other.ingress, one.egress)]
        return [pair for ones, others in lists for pair in zip(ones, others, strict=True)] if fits else []
