"""The routing table: over what each server sends to each other one (mFabric, section 5.3, steps 1 and 2).

A pair of servers with circuits sends over all of them: the GPUs that own their NIC ports are its delegates. A pair
without one sends over the EPS, between the GPUs of both that have NIC ports there: its gateways.
"""

import itertools
import math
from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec
from typing_extensions import override

from hwd_agents.mfabric.servers import Servers
from hwd_drivers.core.errors import ConfigError


class NicPort(msgspec.Struct, frozen=True, order=True):
    """An optical NIC port, named within its server, and the rank of the GPU that owns it."""

    server: int
    rank: int
    name: str

    @override
    def __str__(self) -> str:
        return f"{self.server}.{self.name}"


class Circuit(msgspec.Struct, frozen=True):
    """One direction of an optical link: from TX of one NIC port to RX of the other."""

    here: NicPort
    there: NicPort

    @override
    def __str__(self) -> str:
        return f"{self.here}->{self.there}"


class Medium(StrEnum):
    """The medium of a move that has no circuit."""

    EPS = "eps"
    """Electrical packet switches, between two servers."""
    INSIDE = "inside"
    """NVSwitch, or whatever joins the GPUs of one server."""


Over = Circuit | Medium


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One way from a server to another one. `sender`, `receiver`: the ranks of its delegates over a circuit, of its
    gateways over EPS.
    """

    source: int
    destination: int
    sender: int
    receiver: int
    over: Over

    @property
    def pair(self) -> tuple[int, int]:
        return self.source, self.destination

    @override
    def __str__(self) -> str:
        """`servers 0->2: ranks 0->8 over 0.eth0->2.eth0`."""
        return f"servers {self.source}->{self.destination}: ranks {self.sender}->{self.receiver} over {self.over}"


class RoutingTable(msgspec.Struct, frozen=True, kw_only=True):
    """Made by `routing_table`. Each ordered pair of servers has a row. Raises ConfigError, which names the pair, where
    one has none.
    """

    servers: Servers
    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        has_way = {row.pair for row in self.rows}
        for pair in itertools.permutations(range(len(self.servers.ranks)), 2):
            if pair not in has_way:
                without = [str(server) for server in pair if not self.servers.eps[server]]
                raise ConfigError(
                    f"servers {pair[0]}->{pair[1]}: no circuit, and "
                    + (f"no EPS GPU at {' and '.join(without)}" if without else "no row over EPS is left")
                    + ". Each pair needs a circuit, or an EPS GPU at both ends"
                )

    def by_pair(self) -> dict[tuple[int, int], list[Row]]:
        """The rows of each ordered pair of servers, in the order of the servers."""
        found: dict[tuple[int, int], list[Row]] = {
            pair: [] for pair in itertools.permutations(range(len(self.servers.ranks)), 2)
        }
        for row in self.rows:
            found[row.pair].append(row)
        return found

    def without(self, row: Row) -> "RoutingTable":
        """The table without one row: the other rows of the pair carry what it carried, or EPS where none is left.

        The other direction of its link stays. Raises ConfigError where the row is not in the table, and where its pair
        has no way left.
        """
        if row not in self.rows:
            raise ConfigError(f"{row}: is not in the routing table")
        rest = [one for one in self.rows if one != row]
        if isinstance(row.over, Circuit) and all(one.pair != row.pair for one in rest):
            rest += _over_eps(self.servers, *row.pair)
            rest.sort(key=lambda one: one.pair)
        return RoutingTable(servers=self.servers, rows=tuple(rest))


def routing_table(servers: Servers, links: Iterable[tuple[NicPort, NicPort]]) -> RoutingTable:
    """`links`: the optical links that are lit, in either direction; each carries two circuits, one each way.

    Rows are sorted by servers, then by the ranks of delegates. Raises ConfigError for a link that does not fit the
    servers, for a NIC port that has two links, and where a pair has neither a circuit nor EPS.
    """
    circuits: dict[tuple[int, int], list[Row]] = {}
    used: set[tuple[int, str]] = set()
    for one, other in links:
        for port in (one, other):
            if servers.server_of.get(port.rank) != port.server:
                raise ConfigError(f"link {one}-{other}: rank {port.rank} of {port} is not at server {port.server}")
            if (port.server, port.name) in used:
                raise ConfigError(f"link {one}-{other}: {port} has another link already")
            used.add((port.server, port.name))
        if one.server == other.server:
            raise ConfigError(f"link {one}-{other}: both ends are at server {one.server}")
        for here, there in ((one, other), (other, one)):
            row = Row(
                source=here.server,
                destination=there.server,
                sender=here.rank,
                receiver=there.rank,
                over=Circuit(here, there),
            )
            circuits.setdefault(row.pair, []).append(row)
    rows: list[Row] = []
    for pair in itertools.permutations(range(len(servers.ranks)), 2):
        rows += sorted(circuits.get(pair, ()), key=_by_ports) or _over_eps(servers, *pair)
    return RoutingTable(servers=servers, rows=tuple(rows))


def _by_ports(row: Row) -> tuple[NicPort, ...]:
    return (row.over.here, row.over.there) if isinstance(row.over, Circuit) else ()


def _over_eps(servers: Servers, source: int, destination: int) -> Iterator[Row]:
    """Rows over which all gateways of both servers have the same share: as many as the least common multiple of how
    many there are, no two of them between the same ranks. None where a server has no gateway.
    """
    here, there = servers.eps[source], servers.eps[destination]
    for number in range(math.lcm(len(here), len(there))):
        yield Row(
            source=source,
            destination=destination,
            sender=here[number % len(here)],
            receiver=there[number % len(there)],
            over=Medium.EPS,
        )
