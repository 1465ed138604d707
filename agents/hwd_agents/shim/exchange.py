"""Exchange: the moves of mFabric's collectives, made between the processes of ranks over TCP.

with rank.exchange() as exchange:
    table = routing_table(exchange.servers, exchange.circuits(rank.links))
    moves = all_to_all_moves(table, elements)
    came = exchange.all_to_all(moves, {2: payload}, element_bytes=256)     # by the rank that it is from

A move over a circuit goes from the address of the one NIC port to that of the other; one over EPS between addresses on
packet switches; one inside a host over its loopback. All ranks of the job call the same collectives in the same order.
"""

import fcntl
import hashlib
import logging
import os
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Self, TypeVar

from hwd_agents.mfabric import Circuit, Medium, Move, NicPort, Phase, Servers, Slice, Step, VectorMove
from hwd_agents.wire import RankPlace
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import ConfigError, DeadlineError, LinkError, ProtocolError, RefusedError
from hwd_drivers.core.reason import reason_of

PORT: Final = 29_600
"""Rank n listens on this one and n more; two jobs on one host need two."""
AGAIN_S: Final = 0.02
"""Between two attempts to reach a rank."""
CONNECT_S: Final = 0.5
"""For one attempt: TCP itself asks again after a second."""
TAKE_S: Final = 60.0
"""Without a byte, before a connection is given up."""
MOST_BYTES: Final = 1 << 32
"""The most bytes of one move."""
_HEADER: Final = struct.Struct("!32sQIIIQ")
"""The header of a move: of which job, of which collective and step, who sends, which of the moves between the two, how
many bytes follow.
"""
_TAKEN: Final = b"+"
"""Comes back when all of a move was read."""
_SIOCGIFADDR: Final = 0x8915
_NAME_MOST: Final = 15
"""The call of netdevice(7) for the address of an interface, and the longest name that it takes."""
_TOGETHER: Final = ((Phase.GATHER,), (Phase.INTER_HOST, Phase.INTRA_HOST), (Phase.SCATTER,))
"""Phases that begin at once."""

M = TypeVar("M", bound=Move | VectorMove)
_Key = tuple[int, int, int, int]
"""Collective, step of it, sender, and which of the moves between the two."""


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Ends:
    """The ends of a move: from which NIC port with which address to which address; `source` empty: from any."""

    port: str
    source: str
    destination: str


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
        self._port = port
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
        self._job = hashlib.sha256(job).digest()
        self._collective = self._steps = 0
        self._is_closed = False
        self._process = os.getpid()
        self._came: dict[_Key, bytes] = {}
        self._changed = threading.Condition()
        try:
            self._listener = socket.create_server(("", port + number), backlog=len(places) * 4)
        except OSError as error:
            raise LinkError(f"rank {number}: cannot listen at port {port + number}: {reason_of(error)}") from error
        self._thread = threading.Thread(target=self._listen, name="hwd-exchange", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._is_closed = True
        if self._process == os.getpid():  # else it would end the listener of the process from which it was forked
            with suppress(OSError):  # it is closed already
                self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

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
        with self._changed:
            self._collective += 1
            self._steps = 0
            self._came = {key: data for key, data in self._came.items() if key[0] >= self._collective}
        return _now_s() + within_s

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
        expected: list[tuple[_Key, M]] = []
        errors: list[Exception] = []

        def send(move: M, ends: _Ends, data: Sequence[bytes | memoryview]) -> None:
            try:
                self._send(ends, move.receiver, data, by_s)
            except Exception as error:  # noqa: BLE001 - raised where the collective was called
                errors.append(error)
                with self._changed:
                    self._changed.notify_all()

        for one in moves:
            pair, size = (one.sender, one.receiver), one.length * element_bytes
            which, seen[pair] = seen[pair], seen[pair] + 1
            if size > MOST_BYTES:
                raise ConfigError(f"{one}: {size} bytes in one move, over the {MOST_BYTES} that there may be")
            if one.sender == self._number:
                header = _HEADER.pack(self._job, self._collective, self._steps, self._number, which, size)
                work = partial(send, one, self._ends(one), [header, *payload(one)])
                sending.append(threading.Thread(target=work, name="hwd-exchange-send"))
            elif one.receiver == self._number:
                expected.append(((self._collective, self._steps, one.sender, which), one))
        for thread in sending:
            thread.start()
        try:
            for key, one in expected:
                came = self._received(key, str(one), by_s, errors)
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

    def _ends(self, move: Move | VectorMove) -> _Ends:
        """Raises ConfigError where a rank has no address there."""
        here, there = self._places[move.sender], self._places[move.receiver]
        try:
            match move.over:
                case Circuit(here=near, there=far):
                    return _Ends(near.name, here.optical[near.name], there.optical[far.name])
                case Medium.INSIDE:
                    return _Ends("", "", "127.0.0.1")
            return _Ends(*self._gateway(move.sender), self._gateway(move.receiver)[1])
        except (KeyError, IndexError) as error:
            raise ConfigError(f"{move}: no address to send between: give the NIC ports an `ip`") from error

    def _gateway(self, rank: int) -> tuple[str, str]:
        """The NIC port by which a rank stands for its host on packet switches, and its address."""
        server = self.servers.server_of[rank]
        return [*self._places[rank].electrical.items()][self.servers.eps[server].index(rank)]

    def _send(self, ends: _Ends, to: int, data: Sequence[bytes | memoryview], by_s: float) -> None:
        """Returns when the receiver has all of it. Raises LinkError where it cannot be reached in time: light that has
        just come may lose a first packet, and a rank may be late.
        """
        last = "there was no time left"
        while (left_s := by_s - _now_s()) > 0:
            try:
                with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as peer:
                    if ends.source:
                        _leave_by(peer, ends.port, ends.source)
                    peer.settimeout(min(left_s, CONNECT_S))
                    peer.connect((ends.destination, self._port + to))
                    for piece in data:
                        peer.settimeout(max(by_s - _now_s(), AGAIN_S))
                        peer.sendall(piece)
                    peer.settimeout(max(by_s - _now_s(), AGAIN_S))
                    if peer.recv(1) == _TAKEN:
                        return
                    last = "it hung up before it had all of it"
            except OSError as error:
                last = reason_of(error)
            threading.Event().wait(AGAIN_S)
        raise LinkError(
            f"rank {self._number}: cannot send to rank {to} from {ends.source or 'its host'} to {ends.destination}:"
            f"{self._port + to}: {last}"
        )

    def _received(self, key: _Key, what: str, by_s: float, errors: Sequence[Exception]) -> bytes:
        """Raises the first of `errors` as soon as there is one: what could not be sent is why nothing comes."""
        with self._changed:
            self._changed.wait_for(lambda: key in self._came or errors, timeout=max(0.0, by_s - _now_s()))
            if key in self._came:
                return self._came.pop(key)
        if errors:
            raise errors[0]
        raise DeadlineError(f"rank {self._number}: nothing came of {what} in time")

    # --- what comes

    def _listen(self) -> None:
        while not self._is_closed:
            try:
                peer, _ = self._listener.accept()
            except OSError as error:  # of a connection that came, as where its light went
                if not self._is_closed:
                    log.warning("rank %d: a connection was lost: %s", self._number, reason_of(error))
                    threading.Event().wait(AGAIN_S)
                continue
            threading.Thread(target=self._take, args=(peer,), name="hwd-exchange-take", daemon=True).start()

    def _take(self, peer: socket.socket) -> None:
        """Take the one move of a connection. One that is cut off is sent again, over another connection."""
        try:
            with peer, peer.makefile("rb") as stream:
                peer.settimeout(TAKE_S)
                header = stream.read(_HEADER.size)
                if len(header) < _HEADER.size:
                    return
                job, collective, step, sender, which, size = _HEADER.unpack(header)
                if job != self._job or sender >= len(self._places) or size > MOST_BYTES:
                    log.warning("rank %d: something came that is no move of its job", self._number)
                    return
                data = stream.read(size)
                if len(data) < size:
                    log.info("rank %d: %d of %d bytes came from rank %d", self._number, len(data), size, sender)
                    return
                with self._changed:
                    if collective >= self._collective:  # else it has failed here
                        self._came[collective, step, sender, which] = data
                        self._changed.notify_all()
                peer.sendall(_TAKEN)
        except OSError as error:
            log.info("rank %d: what came was cut off: %s", self._number, reason_of(error))


def _leave_by(peer: socket.socket, port: str, address: str) -> None:
    """Send out of the interface of this name, where it has the address: a route may lead out of another NIC port that
    reaches the same hosts. Raises OSError.
    """
    peer.bind((address, 0))
    asked = struct.pack("256s", port.encode()[:_NAME_MOST])
    try:
        own = socket.inet_ntoa(fcntl.ioctl(peer.fileno(), _SIOCGIFADDR, asked)[20:24])
    except OSError:  # the host has no interface of this name
        return
    if own == address:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, port.encode() + b"\0")


def _now_s() -> float:
    return SystemClock().monotonic_ns() / 1e9
