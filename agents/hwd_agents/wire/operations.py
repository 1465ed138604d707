"""The operations that a rank of a job is about to send, in the words of collective communication."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta
from typing_extensions import override

from .bounds import RANKS_MOST, Name, Number


class OperationKind(StrEnum):
    """The kinds of collective operations, and the two of a pair (MPI 4.1, chapters 3 and 6)."""

    ALL_REDUCE = "all-reduce"
    """Each rank has the sum of all in the end."""
    ALL_GATHER = "all-gather"
    """Each rank has the parts of all in the end."""
    REDUCE_SCATTER = "reduce-scatter"
    """Each rank has its part of the sum of all in the end."""
    ALL_TO_ALL = "all-to-all"
    """Each rank sends a part of its own to each other one."""
    BROADCAST = "broadcast"
    """All ranks have what one had."""
    REDUCE = "reduce"
    """One rank has the sum of all."""
    GATHER = "gather"
    """One rank has the parts of all."""
    SCATTER = "scatter"
    """Each rank has its part of what one had."""
    BARRIER = "barrier"
    """Each knows that all have come."""
    SEND = "send"
    """To one rank."""
    RECEIVE = "receive"
    """From one rank."""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation of a communication group. All its ranks name the same `index`, counted from 0 in the group; a send
    and its receive are counted by themselves, among those from the one rank to the other.

    `size_bytes`: of the whole tensor: all parts of an all-gather or a scatter, all that a rank sends in an all-to-all;
    0 where it is not said. `parts`: of an all-to-all whose parts differ: the bytes that this rank has for each rank of
    the group, in its order; empty where all are equal. `peer`: the other rank, of a send or a receive. `iteration`,
    `layer`: of its training, from 0 on, where the program says it.
    """

    group: Name
    kind: OperationKind
    index: Number
    size_bytes: Number = 0
    parts: Annotated[tuple[Number, ...], Meta(max_length=RANKS_MOST)] = ()
    peer: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    iteration: Number | None = None
    layer: Number | None = None

    def ranks(self, rank: int, group: Sequence[int]) -> tuple[int, ...]:
        """The ranks that make this operation together: all of the group, or a pair, of which `rank` is one."""
        return tuple(group) if self.peer is None else tuple(sorted((rank, self.peer)))

    def shared(self, rank: int) -> tuple[str | int, ...]:
        """Equal for the ranks that make this operation together, and for nobody else: `rank` is one of them."""
        if self.peer is None:
            return self.group, self.index
        way = (rank, self.peer) if self.kind is OperationKind.SEND else (self.peer, rank)
        return self.group, self.index, *way

    @override
    def __str__(self) -> str:
        """`all-reduce 7 of dp0, 64 MB`, `send 2 of pp0 to rank 3, 4 kB`; no two of one rank are alike."""
        scale, unit = next(
            one for one in ((1e6, "MB"), (1e3, "kB"), (1, "B")) if self.size_bytes >= one[0] or one[0] == 1
        )
        size = f", {self.size_bytes / scale:g} {unit}" if self.size_bytes else ""
        peer = ""
        if self.peer is not None:
            peer = f" {'to' if self.kind is OperationKind.SEND else 'from'} rank {self.peer}"
        return f"{self.kind} {self.index} of {self.group}{peer}{size}"
