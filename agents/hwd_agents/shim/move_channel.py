"""MoveChannel: the TCP connections by which the ranks of a job send each other moves, each in one of its own."""

import fcntl
import hashlib
import logging
import socket
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import DeadlineError, LinkError
from hwd_drivers.core.reason import reason_of

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

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ends:
    """The ends of a move: from which NIC port with which address to which address; `source` empty: from any."""

    port: str
    source: str
    destination: str


@dataclass(frozen=True, slots=True)
class MoveKey:
    """A move: which collective and step of it, who sends, and which of the moves between the two."""

    collective: int
    step: int
    sender: int
    which: int


class MoveChannel:
    """Listens from when it is made. `number`: of the rank, of so many `ranks`. `port`: rank n listens on this one and n
    more. `job`: a secret of its ranks; what comes without it is not taken. Raises LinkError where it cannot listen.
    """

    def __init__(self, number: int, ranks: int, *, job: bytes, port: int) -> None:
        self._number = number
        self._ranks = ranks
        self._port = port
        self._job = hashlib.sha256(job).digest()
        self._first = 0
        """The collective before which all is dropped that comes."""
        self._is_closed = False
        self._came: dict[MoveKey, bytes] = {}
        self._changed = threading.Condition()
        try:
            self._listener = socket.create_server(("", port + number), backlog=ranks * 4)
        except OSError as error:
            raise LinkError(f"rank {number}: cannot listen at port {port + number}: {reason_of(error)}") from error
        self.thread = threading.Thread(target=self._listen, name="hwd-exchange", daemon=True)
        self.thread.start()

    def close(self, *, is_forked: bool) -> None:
        """`is_forked`: this process was forked from the one that listens, which goes on."""
        self._is_closed = True
        if not is_forked:
            with suppress(OSError):  # it is closed already
                self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.thread.join()

    def begin(self, collective: int) -> None:
        """A collective begins. What came for earlier ones, which failed, is dropped."""
        with self._changed:
            self._first = collective
            self._came = {key: data for key, data in self._came.items() if key.collective >= collective}

    def wake(self) -> None:
        """Let whoever waits in `received` look for errors."""
        with self._changed:
            self._changed.notify_all()

    def send(self, ends: Ends, to: int, key: MoveKey, data: Sequence[bytes | memoryview], by_s: float) -> None:
        """Returns when the receiver has all of it. Raises LinkError where it cannot be reached in time: light that has
        just come may lose a first packet, and a rank may be late.
        """
        size = sum(map(len, data))
        header = _HEADER.pack(self._job, key.collective, key.step, key.sender, key.which, size)
        last = "there was no time left"
        while (left_s := by_s - now_s()) > 0:
            try:
                with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as peer:
                    if ends.source:
                        _leave_by(peer, ends.port, ends.source)
                    peer.settimeout(min(left_s, CONNECT_S))
                    peer.connect((ends.destination, self._port + to))
                    for piece in (header, *data):
                        peer.settimeout(max(by_s - now_s(), AGAIN_S))
                        peer.sendall(piece)
                    peer.settimeout(max(by_s - now_s(), AGAIN_S))
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

    def received(self, key: MoveKey, what: str, by_s: float, errors: Sequence[Exception]) -> bytes:
        """Raises the first of `errors` as soon as there is one: what could not be sent is why nothing comes."""
        with self._changed:
            self._changed.wait_for(lambda: key in self._came or errors, timeout=max(0.0, by_s - now_s()))
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
                if job != self._job or sender >= self._ranks or size > MOST_BYTES:
                    log.warning("rank %d: something came that is no move of its job", self._number)
                    return
                data = stream.read(size)
                if len(data) < size:
                    log.info("rank %d: %d of %d bytes came from rank %d", self._number, len(data), size, sender)
                    return
                with self._changed:
                    if collective >= self._first:  # else it has failed here
                        self._came[MoveKey(collective, step, sender, which)] = data
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


def now_s() -> float:
    return SystemClock().monotonic_ns() / 1e9
