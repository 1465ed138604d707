"""OrderedConnection: one connection to a device whose answers carry no tags and come in the order of the requests."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic

from typing_extensions import override

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import LinkError, ProtocolError
from hwd_drivers.transports.dial import Dialer
from hwd_drivers.transports.link import Answered, Link, MessageT, Pending, connect
from hwd_drivers.transports.serial_line import SerialLine

__all__ = ["Answered", "OrderedConnection", "Request"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Generic[MessageT]):
    """Bytes to send, and a text for errors; `what` must hold no secret.

    `answers`: number of messages that come back; 0 where the device answers only with a refusal. `fits`: whether a
    message can be an answer to this request; one that cannot shows that device and driver are out of step.
    """

    data: bytes
    what: str
    answers: int = 1
    fits: Callable[[MessageT], bool] | None = None


class OrderedConnection(Link[MessageT]):
    """Requests and their answers over one connection, in the order of the requests.

        connection = await OrderedConnection.open(dialer, "/dev/ttyUSB0", name="sw1", decode=decode, ...)
        answered = await connection.request(Request(data=b"S?\\n", what="S?"), deadline_s=loop.time() + 2)

    `decode` turns bytes into messages. `refuses` decides whether a message is a refusal. A refusal answers the first
    open request completely, also one without an answer on success (`Request.answers` 0), and takes that place in
    `Answered.messages`.

    Without tags an overdue answer could be taken for the next one: a deadline ends the connection, and so does an
    unsolicited message or one that does not fit. A cancelled exchange keeps its place: its answer is dropped when it
    comes, and counted in `late`.
    """

    def __init__(
        self,
        *,
        name: str,
        decode: Callable[[bytes], Sequence[MessageT]],
        clock: Clock,
        refuses: Callable[[MessageT], bool] | None,
    ) -> None:
        super().__init__(name=name, clock=clock)
        self._decode = decode
        self._refuses = refuses
        self._open: deque[_Slot[MessageT]] = deque()

    @classmethod
    async def open(
        cls,
        dialer: Dialer,
        address: str,
        *,
        name: str,
        decode: Callable[[bytes], Sequence[MessageT]],
        clock: Clock,
        deadline_s: float,
        serial: SerialLine | None = None,
        refuses: Callable[[MessageT], bool] | None = None,
    ) -> "OrderedConnection[MessageT]":
        """Connect to the device.

        `serial` has the settings of this kind of device, which the address of a serial port need not repeat.

        Raises LinkError where the device does not accept, DeadlineError after the deadline, ConfigError for an invalid
        address.
        """

        def make() -> OrderedConnection[MessageT]:
            return cls(name=name, decode=decode, clock=clock, refuses=refuses)

        whole = address if serial is None else serial.complete(address)
        return await connect(dialer, make, whole, name=name, deadline_s=deadline_s)

    async def request(
        self, *requests: Request[MessageT], deadline_s: float, on_sent: Callable[[int], None] | None = None
    ) -> Answered[MessageT]:
        """Send all in one write and wait for all answers.

        `deadline_s` is a time of `loop.time()`; nothing is sent after it. Raises DeadlineError, LinkError when the
        connection is or gets lost, ProtocolError when received bytes could not be parsed or belong to no request.
        """
        answers = sum(request.answers for request in requests)
        pending: Pending[MessageT] = Pending(self._loop, [request.what for request in requests], answers=answers)

        def enrol() -> None:
            place = 0
            for request in requests:
                if request.answers or self._refuses is not None:
                    self._open.append(_Slot(pending, request, place))
                place += max(1, request.answers)

        data = b"".join([request.data for request in requests])
        return await self._exchange(pending, data, deadline_s=deadline_s, enrol=enrol, on_sent=on_sent)

    @override
    def _received(self, data: bytes, received_ns: int) -> None:
        for message in self._decode(data):
            self._answer(message, received_ns)

    def _answer(self, message: MessageT, received_ns: int) -> None:
        refusal = self._refuses is not None and self._refuses(message)
        if not refusal:
            while self._open and not self._open[0].left:
                self._open.popleft()  # the answer belongs to a later request: this one was not refused
        if not self._open:
            raise ProtocolError(f"{message!r} without a request")
        slot = self._open[0]
        if not refusal and slot.request.fits is not None and not slot.request.fits(message):
            raise ProtocolError(f"{message!r} is not an answer to {slot.request.what}")
        if slot.pending.done.done():
            self.late += 1
            log.debug(
                "%s: %s: its answer came after it was abandoned (%d so far)",
                self._name,
                slot.request.what,
                self.late,
            )
        answers = slot.left if refusal else 1
        slot.pending.take(slot.place, message, received_ns, answers=answers)
        slot.left -= answers
        slot.place += 1
        if not slot.left:
            self._open.popleft()

    @override
    def _take_waiting(self) -> Iterable[Pending[MessageT]]:
        waiting, self._open = self._open, deque()
        return [slot.pending for slot in waiting]

    @override
    def _expire(self, pending: Pending[MessageT], allowed_s: float) -> None:
        if pending.done.done():
            return
        super()._expire(pending, allowed_s)
        self._cut(
            LinkError(f"{self._name}: connection closed: {pending.what} was not answered within {allowed_s:.3g} s")
        )


class _Slot(Generic[MessageT]):
    """A request with missing answers."""

    __slots__ = ("left", "pending", "place", "request")

    def __init__(self, pending: Pending[MessageT], request: Request[MessageT], place: int) -> None:
        self.pending = pending
        self.request = request
        self.place = place
        self.left = request.answers
