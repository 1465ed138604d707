"""ClockUdp: asks one agent for the time by UDP, without the broker, with time stamps of both kernels."""

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hwd.bus.clocks.clock_exchange import ClockExchange
from hwd_agents.clock import datagram as clock_wire
from hwd_agents.clock.stamped_socket import Address, ClockSocket
from hwd_agents.wire import ClockUdp as Place
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.ids import Ids
from hwd_drivers.core.reason import reason_of

ANSWER_WITHIN_S: Final = 0.5
"""A later answer is dropped: its bound on the offset would be wide."""
TRY_FIRST_S, TRY_GROWTH, TRY_MOST_S = 1.0, 2.0, 60.0
"""The pause after an attempt without an answer."""
NO_ANSWER = "no answer from {address} port {port} by UDP, which a firewall or a network between may drop"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PendingRequest:
    exchange: ClockExchange
    id: int
    t1_ns: int


class ClockUdp:
    """The exchange of time with one agent over UDP. `reject` is called with the reason for each datagram that is
    dropped: a forged, repeated or late one.

    `why_not`: why UDP is not used, or empty.
    """

    def __init__(self, *, clock: Clock, ids: Ids, reject: Callable[[str], None]) -> None:
        self._clock = clock
        self._ids = ids
        self._reject = reject
        self._place: Place | None = None
        self._socket: ClockSocket | None = None
        self._asked: dict[bytes, _PendingRequest] = {}
        self._before: tuple[bytes, _PendingRequest] | None = None
        self._try_s, self._wait_s = 0.0, TRY_FIRST_S
        self.works = False
        """Whether the last request by UDP was answered."""
        self.why_not = "its agent names no port for it"

    def aim(self, place: Place | None, why_not: str) -> None:
        """Send requests to `place` from now on; the same place again changes nothing."""
        if place == self._place:
            return
        self.close()
        self._place = place
        self.works, self.why_not = False, why_not or "its agent names no port for it"
        self._try_s, self._wait_s = 0.0, TRY_FIRST_S
        if place is None:
            return
        if "%" in place.address:
            self.why_not = f"{place.address} means something on its own host only"
            return
        try:
            opened = socket.socket(socket.AF_INET6 if ":" in place.address else socket.AF_INET, socket.SOCK_DGRAM)
        except OSError as error:
            self.why_not = f"cannot open a socket: {error.strerror}"
            return
        opened.setblocking(False)
        try:
            opened.connect((place.address, place.port))
        except (OSError, OverflowError) as error:
            opened.close()
            self.why_not = f"cannot reach {place.address} port {place.port} by UDP: {reason_of(error)}"
            return
        self._socket = ClockSocket(opened, self._clock, self._take)
        self.why_not = "it was not tried yet"

    def close(self) -> None:
        """Send no more requests."""
        if self._socket is not None:
            self._socket.close()
        self._socket = self._place = self._before = None
        self._asked.clear()

    @property
    def due(self) -> bool:
        """Whether to try UDP again, though it did not work or was not tried yet."""
        return self._socket is not None and not self.works and self._now_s() >= self._try_s

    def worked(self) -> None:
        """An attempt was answered."""
        self.works, self.why_not, self._wait_s = True, "", TRY_FIRST_S

    def failed(self) -> None:
        """An attempt was not answered."""
        self.works = False
        if self._place is not None:
            self.why_not = NO_ANSWER.format(address=self._place.address, port=self._place.port)
        self._try_s = self._now_s() + self._wait_s
        self._wait_s = min(TRY_MOST_S, self._wait_s * TRY_GROWTH)

    def ask(self, exchange: ClockExchange) -> int | None:
        """Send a request, and return its id; None where it could not be sent."""
        if self._socket is None or self._place is None:
            return None
        nonce = self._ids.token(length=clock_wire.NONCE_BYTES).encode()
        datagram = clock_wire.encode(clock_wire.Request(nonce=nonce), self._place.key)
        t1_ns = self._clock.monotonic_ns()
        self._forget(t1_ns)
        id = exchange.ask(t1_ns)
        left_ns = self._socket.send(datagram)
        if left_ns is None:
            exchange.give_up(id)
            return None
        exchange.sent(id, left_ns)
        self._asked[nonce] = _PendingRequest(exchange=exchange, id=id, t1_ns=left_ns)
        return id

    def _forget(self, now_ns: int) -> None:
        for nonce, asked in list(self._asked.items()):
            if now_ns - asked.t1_ns > ANSWER_WITHIN_S * 1e9:
                asked.exchange.give_up(asked.id)
                del self._asked[nonce]

    def _take(self, payload: bytes, address: Address, at_ns: int) -> None:
        if self._place is None:
            return
        self._forget(at_ns)
        try:
            answer = clock_wire.decode(payload, self._place.key)
            if not isinstance(answer, clock_wire.Answer) or (asked := self._asked.pop(answer.nonce, None)) is None:
                raise ProtocolError(
                    f"clock: a late or repeated answer, or one that nobody asked for, from {address[0]}"
                )
            if self._before is not None and self._before[0] == answer.before:
                before = self._before[1]
                before.exchange.correct_sent(before.id, answer.t3_before_ns)
            asked.exchange.take_answer(asked.id, answer.t2_ns, answer.t3_ns, at_ns)
            self._before = answer.nonce, asked
        except ProtocolError as error:
            self._reject(str(error))

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()
