"""Exchange: the moves of mFabric's collectives, made between the processes of ranks over TCP.

with rank.exchange() as exchange:
    table = routing_table(exchange.servers, exchange.circuits(rank.links))
    moves = all_to_all_moves(table, elements)
    came = exchange.all_to_all(moves, {2: payload}, element_bytes=256)     # by the rank that it is from

A move over a circuit goes from the address of the one NIC port to that of the other; one over EPS between addresses on
packet switches; one inside a host over its loopback. All ranks of the job call the same collectives in the same order.
"""

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Self, TypeVar

from hwd_agents.mfabric import Circuit, Medium, Move, NicPort, Phase, Servers, Slice, Step, VectorMove
from hwd_agents.shim.move_channel import MOST_BYTES, Ends, MoveChannel, MoveKey, now_s
from hwd_agents.wire import RankPlace
from hwd_drivers.core.errors import ConfigError, DeadlineError, ProtocolError, RefusedError

PORT: Final = 29_600
"""Rank n listens on this one and n more; two jobs on one host need two."""
_TOGETHER: Final = ((Phase.GATHER,), (Phase.INTER_HOST, Phase.INTRA_HOST), (Phase.SCATTER,))
"""Phases that begin at once."""

M = TypeVar("M", bound=Move | VectorMove)


class Exchange:
    """Listens from when it is made. Not for several threads at once.

    `places`: of all ranks, by number. Hosts are servers, in the order of their first ranks; an optical NIC port belongs
    to the first rank that may send over it; of `n` NIC ports on packet switches the first `n` ranks of the host are the
    gateways, each by one; `eps_ports`: by so many of them at most. `servers`: all that. `job`: a secret of its ranks;
    what comes without it is not taken. Raises ConfigError where there is no such rank, LinkError where it cannot
    listen.
    """

    def __init__(
        self,
        number: int,
        places: Sequence[RankPlace],
        *,
        job: bytes = b"",
        port: int = PORT,
        eps_ports: int | None = None,
    ) -> None:
        if not 0 <= number < len(places):
            raise ConfigError(f"rank {number}: there are {len(places)} ranks")
        self._number = number
        self._places = places
        hosts = [*dict.fromkeys(place.host for place in places)]
        ranks = [tuple(n for n, place in enumerate(places) if place.host == host) for host in hosts]
        self.servers = Servers(
            ranks=tuple(ranks), eps=tuple(some[: len([*places[some[0]].electrical][:eps_ports])] for some in ranks)
        )
        self._owner = {
            f"{place.host}.{name}": NicPort(hosts.index(place.host), n, name)
            for n, place in reversed([*enumerate(places)])
            for name in place.optical
        }
        self._collective = self._steps = 0
        self._process = os.getpid()
        self._channel = MoveChannel(number, len(places), job=job, port=port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close(is_forked=self._process != os.getpid())

    def circuits(self, links: Iterable[str]) -> list[tuple[NicPort, NicPort]]:
        """The links of a light, `h0.eth0<->h1.eth0`; those of NIC ports that no rank has are left out."""
        ends = [link.split("<->") for link in links]
        return [(self._owner[a], self._owner[b]) for a, b in ends if a in self._owner and b in self._owner]

    def all_to_all(
        self,
        moves: Mapping[Phase, Sequence[Move]],
        sent: Mapping[int, bytes | memoryview],
        *,
        element_bytes: int,
        within_s: float = 30.0,
    ) -> dict[int, bytearray]:
        """Make this rank's part of the moves; returns what came, by the rank that it is from.

        `sent`: what this rank has for each, its own part too. Raises DeadlineError, which names who did not send;
        LinkError where a receiver cannot be reached, with both addresses; ConfigError for moves that need more than
        was given; RefusedError in a process that was forked from the rank's.
        """
        own = self._number
        by_s = self._begun(within_s)
        parts: dict[Slice, bytes] = {}
        came: dict[int, bytearray] = {}
        if own in sent:
            came[own] = bytearray(sent[own])
        sizes = [one for some in moves.values() for move in some for one in move.slices if one.destination == own]
        for one in sizes:
            size = (one.offset + one.length) * element_bytes
            if len(came.setdefault(one.source, bytearray())) < size:
                came[one.source].extend(bytes(size - len(came[one.source])))

        def payload(move: Move) -> list[bytes | memoryview]:
            return [self._slice(one, sent, parts, element_bytes) for one in move.slices]

        def take(move: Move, data: bytes) -> None:
            at = 0
            for one in move.slices:
                piece = data[at : at + one.length * element_bytes]
                at += len(piece)
                if one.destination == own:
                    first = one.offset * element_bytes
                    came[one.source][first : first + len(piece)] = piece
                else:
                    parts[one] = piece

        for phases in _TOGETHER:
            together = [move for phase in phases for move in moves.get(phase, ())]
            self._step(together, element_bytes, payload, take, by_s)
        return came

    def all_reduce(
        self,
        steps: Sequence[Step],
        vector: memoryview,
        *,
        element_bytes: int,
        add: Callable[[memoryview, bytes], None],
        within_s: float = 30.0,
    ) -> None:
        """Make this rank's part of the steps; `vector` has the sum of all then. `add` adds elements to some of it.
        Raises as `all_to_all` does.
        """
        by_s = self._begun(within_s)

        def part(move: VectorMove) -> memoryview:
            return vector[move.offset * element_bytes : (move.offset + move.length) * element_bytes]

        def take(move: VectorMove, data: bytes) -> None:
            if move.adds:
                add(part(move), data)
            else:
                part(move)[:] = data

        for step in steps:
            self._step(step.moves, element_bytes, lambda move: [part(move)], take, by_s)

    # --- one step

    def _begun(self, within_s: float) -> float:
        """A collective begins; returns until when it may take. What came for earlier ones, which failed, is dropped."""
        if self._process != os.getpid():
            raise RefusedError(
                f"rank {self._number}: this process was forked from that of the rank, which alone has what comes to it"
            )
        self._collective += 1
        self._steps = 0
        self._channel.begin(self._collective)
        return now_s() + within_s

    def _step(
        self,
        moves: Sequence[M],
        element_bytes: int,
        payload: Callable[[M], list[bytes | memoryview]],
        take: Callable[[M, bytes], None],
        by_s: float,
    ) -> None:
        """All moves of it at once; what came is taken in their order, whatever the order in which it came."""
        self._steps += 1
        seen = Counter[tuple[int, int]]()
        sending: list[threading.Thread] = []
        expected: list[tuple[MoveKey, M]] = []
        errors: list[Exception] = []

        def send(move: M, ends: Ends, key: MoveKey, data: Sequence[bytes | memoryview]) -> None:
            try:
                self._channel.send(ends, move.receiver, key, data, by_s)
            except Exception as error:  # noqa: BLE001 - raised where the collective was called
                errors.append(error)
                self._channel.wake()

        for one in moves:
            pair, size = (one.sender, one.receiver), one.length * element_bytes
            which, seen[pair] = seen[pair], seen[pair] + 1
            if size > MOST_BYTES:
                raise ConfigError(f"{one}: {size} bytes in one move, over the {MOST_BYTES} that there may be")
            key = MoveKey(self._collective, self._steps, one.sender, which)
            if one.sender == self._number:
                work = partial(send, one, self._ends(one), key, payload(one))
                sending.append(threading.Thread(target=work, name="hwd-exchange-send"))
            elif one.receiver == self._number:
                expected.append((key, one))
        for thread in sending:
            thread.start()
        try:
            for key, one in expected:
                came = self._channel.received(key, str(one), by_s, errors)
                if len(came) != one.length * element_bytes:
                    raise ProtocolError(f"rank {self._number}: {len(came)} bytes came of {one}")
                take(one, came)
        except DeadlineError:
            for thread in sending:
                thread.join()
            if errors:  # a way that is dark both ways
                raise errors[0] from None
            raise
        finally:
            for thread in sending:
                thread.join()
        if errors:
            raise errors[0]

    def _slice(
        self, one: Slice, sent: Mapping[int, bytes | memoryview], parts: Mapping[Slice, bytes], element_bytes: int
    ) -> bytes | memoryview:
        if one.source != self._number:
            return parts[one]
        whole = memoryview(sent.get(one.destination, b"")).cast("B")
        piece = whole[one.offset * element_bytes : (one.offset + one.length) * element_bytes]
        if len(piece) != one.length * element_bytes:
            raise ConfigError(
                f"rank {self._number}: has {len(whole)} bytes for rank {one.destination}, and elements from "
                f"{one.offset} on, {one.length} of {element_bytes} bytes, are to be sent"
            )
        return piece

    def _ends(self, move: Move | VectorMove) -> Ends:
        """Raises ConfigError where a rank has no address there."""
        here, there = self._places[move.sender], self._places[move.receiver]
        try:
            match move.over:
                case Circuit(here=near, there=far):
                    return Ends(near.name, here.optical[near.name], there.optical[far.name])
                case Medium.INSIDE:
                    return Ends("", "", "127.0.0.1")
            return Ends(*self._gateway(move.sender), self._gateway(move.receiver)[1])
        except (KeyError, IndexError) as error:
            raise ConfigError(f"{move}: no address to send between: give the NIC ports an `ip`") from error

    def _gateway(self, rank: int) -> tuple[str, str]:
        """The NIC port by which a rank stands for its host on packet switches, and its address."""
        server = self.servers.server_of[rank]
        return [*self._places[rank].electrical.items()][self.servers.eps[server].index(rank)]
