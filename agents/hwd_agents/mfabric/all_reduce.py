"""The steps of a hierarchical all-reduce over the EPS (mFabric, section 5.3, hierarchical DP).

Each server reduces to its gateway, the gateways of all servers make a ring all-reduce, and each gateway broadcasts the
result within its server. Where servers have several EPS GPUs the vector is cut into as many parts; each part has its
own gateway in each server, and its own ring (multi-ring). With S servers a ring takes S - 1 steps of reduce-scatter and
S - 1 of all-gather (Patarasuk and Yuan, 2009).
"""

import itertools
from enum import StrEnum

import msgspec
from typing_extensions import override

from hwd_agents.mfabric.all_to_all import even_parts
from hwd_agents.mfabric.routing import Medium
from hwd_agents.mfabric.servers import Servers
from hwd_drivers.core.errors import ConfigError


class Stage(StrEnum):
    REDUCE = "reduce"
    """Within servers, to the gateways."""
    REDUCE_SCATTER = "reduce-scatter"
    """Between gateways; in the end each has the sum of one segment."""
    ALL_GATHER = "all-gather"
    """Between gateways; in the end each has all of its part."""
    BROADCAST = "broadcast"
    """Within servers, from the gateways."""


class VectorMove(msgspec.Struct, frozen=True, kw_only=True):
    """A move of `length` elements of the vector from `offset` on. `adds`: the receiver adds them to its own; else it
    overwrites these.
    """

    sender: int
    receiver: int
    over: Medium
    offset: int
    length: int
    adds: bool

    @override
    def __str__(self) -> str:
        sign = "+=" if self.adds else "="
        return f"{self.sender}->{self.receiver} over {self.over}: [{self.offset}:{self.offset + self.length}] {sign}"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Moves that may be made at once: none sends what another one changes."""

    stage: Stage
    moves: tuple[VectorMove, ...]


Segment = tuple[int, int]
"""Offset and length, in elements."""


def all_reduce_steps(servers: Servers, length: int) -> list[Step]:
    """2 S steps for S > 1 servers: after them each rank has the sum of all vectors of `length` elements.

    All servers use as many gateways as that with the fewest EPS GPUs has, their first ones. Moves of length 0 are left
    out, and steps without moves are not. Receivers that add in the order of the moves get the same floats in each run,
    and all ranks the same. Raises ConfigError where a server of several has no EPS GPU, and for a negative length.
    """
    if length < 0:
        raise ConfigError(f"all-reduce of {length} elements: has to be at least 0")
    gateways = _gateways(servers)
    parts = _segments(0, length, len(gateways[0]))
    rings = [
        ([some[number] for some in gateways], _segments(*part, len(gateways))) for number, part in enumerate(parts)
    ]
    inside = [
        (gateway, rank, part)
        for ranks, some in zip(servers.ranks, gateways, strict=True)
        for gateway, part in zip(some, parts, strict=True)
        for rank in ranks
        if rank != gateway
    ]
    last = len(gateways) - 1
    found = [[_move(rank, gateway, Medium.INSIDE, part, adds=True) for gateway, rank, part in inside]]
    for number in range(last):  # server s passes on segment s, then s - 1 ...
        found.append([move for ring in rings for move in _ring_step(*ring, -number, adds=True)])
    for number in range(last):  # it has the sum of segment s + 1 now
        found.append([move for ring in rings for move in _ring_step(*ring, 1 - number, adds=False)])
    found.append([_move(gateway, rank, Medium.INSIDE, part, adds=False) for gateway, rank, part in inside])
    stages = [Stage.REDUCE, *[Stage.REDUCE_SCATTER] * last, *[Stage.ALL_GATHER] * last, Stage.BROADCAST]
    return [
        Step(stage=stage, moves=tuple(move for move in moves if move.length))
        for stage, moves in zip(stages, found, strict=True)
    ]


def _gateways(servers: Servers) -> list[tuple[int, ...]]:
    """The ranks of each server that stand for it, equally many."""
    if len(servers.ranks) == 1:
        return [servers.eps[0] or servers.ranks[0][:1]]
    for server, ranks in enumerate(servers.eps):
        if not ranks:
            raise ConfigError(f"all-reduce over EPS: server {server} has no EPS GPU, and each server needs one")
    fewest = min(map(len, servers.eps))
    return [ranks[:fewest] for ranks in servers.eps]


def _ring_step(ranks: list[int], segments: list[Segment], shift: int, *, adds: bool) -> list[VectorMove]:
    """Rank number s of the ring sends segment s + `shift` to the next one."""
    return [
        _move(rank, ranks[(number + 1) % len(ranks)], Medium.EPS, segments[(number + shift) % len(ranks)], adds=adds)
        for number, rank in enumerate(ranks)
    ]


def _move(sender: int, receiver: int, over: Medium, segment: Segment, *, adds: bool) -> VectorMove:
    return VectorMove(sender=sender, receiver=receiver, over=over, offset=segment[0], length=segment[1], adds=adds)


def _segments(offset: int, length: int, parts: int) -> list[Segment]:
    lengths = even_parts(length, parts)
    return [*zip(itertools.accumulate(lengths, initial=offset), lengths, strict=False)]
