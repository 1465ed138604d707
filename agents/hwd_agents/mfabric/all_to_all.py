"""The moves of an all-to-all over a routing table (mFabric, section 5.3, steps 2 to 5).

What a server sends to another one is shared out over the rows of the pair, in whole elements as evenly as can be. Each
delegate takes what its own GPU sends first, and then of the others, so that the fewest elements are gathered for these
shares. A share is split by element, so a slice may end anywhere in what one rank sends to another one.
"""

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec
from typing_extensions import override

from hwd_agents.mfabric.routing import Medium, Over, RoutingTable, Row
from hwd_agents.mfabric.servers import Servers
from hwd_drivers.core.errors import ConfigError


class Phase(StrEnum):
    """The phases of an all-to-all in the order in which they begin. INTRA_HOST may overlap INTER_HOST: neither needs
    what the other moves.
    """

    GATHER = "gather"
    """Within servers, from the GPUs that send to the delegates."""
    INTER_HOST = "inter-host"
    """Between servers, from delegate to delegate and from gateway to gateway."""
    INTRA_HOST = "intra-host"
    """Within servers, what their GPUs send each other."""
    SCATTER = "scatter"
    """Within servers, from the delegates to the GPUs that receive."""


class Slice(msgspec.Struct, frozen=True):
    """A slice of the elements that rank `source` sends to rank `destination`: `length` of them, from `offset` on."""

    source: int
    destination: int
    offset: int
    length: int


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A move from one rank to another one at once, in the order of the slices."""

    sender: int
    receiver: int
    over: Over
    slices: tuple[Slice, ...]

    @property
    def length(self) -> int:
        """The length of the move in elements."""
        return sum(one.length for one in self.slices)

    @override
    def __str__(self) -> str:
        return f"{self.sender}->{self.receiver} over {self.over}: {self.length}"


RankPair = tuple[int, int]
"""A sender, or source, and a receiver, or destination."""


def all_to_all_moves(table: RoutingTable, elements: Mapping[RankPair, int]) -> dict[Phase, tuple[Move, ...]]:
    """The moves of each phase. What a rank sends to itself is not moved, and there are no moves of length 0.

    `elements`: how many each rank sends to each, by (source, destination); pairs that are not there send none. The
    moves of a phase are sorted by the distance from sender to receiver in the order of all ranks: at each distance a
    rank sends to one and receives from one. Raises ConfigError for a rank that no server has, and for a number of
    elements below 0.
    """
    servers = table.servers
    _check(servers, elements)
    gather: dict[RankPair, list[Slice]] = {}
    scatter: dict[RankPair, list[Slice]] = {}
    between: list[Move] = []
    for (source, destination), rows in table.by_pair().items():
        sent = list(_slices(itertools.product(servers.ranks[source], servers.ranks[destination]), elements))
        for row, part in zip(rows, _shared_out(sent, rows), strict=True):
            for one in part:
                if one.source != row.sender:
                    gather.setdefault((one.source, row.sender), []).append(one)
                if one.destination != row.receiver:
                    scatter.setdefault((row.receiver, one.destination), []).append(one)
            if part:
                between.append(Move(sender=row.sender, receiver=row.receiver, over=row.over, slices=tuple(part)))
    local = itertools.chain.from_iterable(itertools.permutations(ranks, 2) for ranks in servers.ranks)
    inside = {(one.source, one.destination): [one] for one in _slices(local, elements)}
    found = {
        Phase.GATHER: _inside(gather),
        Phase.INTER_HOST: between,
        Phase.INTRA_HOST: _inside(inside),
        Phase.SCATTER: _inside(scatter),
    }
    order = {rank: number for number, rank in enumerate(servers.server_of)}

    def turn(move: Move) -> tuple[int, int]:
        return (order[move.receiver] - order[move.sender]) % len(order), order[move.sender]

    return {phase: tuple(sorted(moves, key=turn)) for phase, moves in found.items()}


def _check(servers: Servers, elements: Mapping[RankPair, int]) -> None:
    for (source, destination), count in elements.items():
        for rank in (source, destination):
            if rank not in servers.server_of:
                raise ConfigError(f"elements from rank {source} to {destination}: rank {rank} is at no server")
        if count < 0:
            raise ConfigError(f"elements from rank {source} to {destination}: is {count}, and has to be at least 0")


def _slices(pairs: Iterable[RankPair], elements: Mapping[RankPair, int]) -> Iterator[Slice]:
    for source, destination in pairs:
        if count := elements.get((source, destination), 0):
            yield Slice(source, destination, 0, count)


def _inside(slices: Mapping[RankPair, Sequence[Slice]]) -> list[Move]:
    return [
        Move(sender=sender, receiver=receiver, over=Medium.INSIDE, slices=tuple(some))
        for (sender, receiver), some in slices.items()
    ]


def _shared_out(sent: Sequence[Slice], rows: Sequence[Row]) -> list[list[Slice]]:
    """The slices of each row: of what its sender sends itself first, then of what is left."""
    shares = even_parts(sum(one.length for one in sent), len(rows))
    own: dict[int, deque[Slice]] = {}
    for one in sent:
        own.setdefault(one.source, deque()).append(one)
    found = [list(_taken(own.get(row.sender, deque()), share)) for row, share in zip(rows, shares, strict=True)]
    left = deque(itertools.chain.from_iterable(own.values()))
    for part, share in zip(found, shares, strict=True):
        part += _taken(left, share - sum(one.length for one in part))
    return found


def even_parts(length: int, parts: int) -> list[int]:
    """The lengths of so many parts of whole elements: they differ by one at most, and the first ones are the longer.

    With one part less, each one that is left is at least as long as it was.
    """
    each, longer = divmod(length, parts)
    return [each + (number < longer) for number in range(parts)]


def _taken(slices: deque[Slice], most: int) -> Iterator[Slice]:
    """Takes so many elements from the front, or all where there are fewer."""
    while most and slices:
        first = slices.popleft()
        if first.length > most:
            slices.appendleft(Slice(first.source, first.destination, first.offset + most, first.length - most))
            first = Slice(first.source, first.destination, first.offset, most)
        most -= first.length
        yield first
