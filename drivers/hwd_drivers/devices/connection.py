"""Connection: one connection to a device whose answers carry tags and come in any order."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from typing_extensions import override

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import BugError
from hwd_drivers.transports.dial import Dialer
from hwd_drivers.transports.link import Answered, Link, MessageT, Pending, connect

__all__ = ["Answered", "Connection", "Request"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Bytes to send, the tag of the answer, and a text for errors; `what` must hold no secret."""

    tag: str
    data: bytes
    what: str


class Connection(Link[MessageT]):
    """Requests and their answers over one connection.

        connection = await Connection.open(dialer, "10.0.0.5:3082", name="ocs1", decode=decode, clock=clock, ...)
        answered = await connection.request(Request(tag="1", data=b"...", what="RTRV"), deadline_s=loop.time() + 2)

    `decode` turns bytes into answers with their tags, and handles unsolicited messages itself. Its ProtocolError ends
    the connection. An abandoned request (deadline, cancellation) does not: its late answer is known by its tag.
    """

    def __init__(self, *, name: str, decode: Callable[[bytes], Sequence[tuple[str, MessageT]]], clock: Clock) -> None:
        super().__init__(name=name, clock=clock)
        self._decode = decode
        self._waiting: dict[str, tuple[Pending[MessageT], int]] = {}

    @classmethod
    async def open(
        cls,
        dialer: Dialer,
        address: str,
        *,
        name: str,
        decode: Callable[[bytes], Sequence[tuple[str, MessageT]]],
        clock: Clock,
        deadline_s: float,
    ) -> "Connection[MessageT]":
        """Connect to the device.

        Raises LinkError where the device does not accept, DeadlineError after the deadline, ConfigError for an invalid
        address.
        """

        def make() -> Connection[MessageT]:
            return cls(name=name, decode=decode, clock=clock)

        return await connect(dialer, make, address, name=name, deadline_s=deadline_s)

    async def request(
        self, *requests: Request, deadline_s: float, on_sent: Callable[[int], None] | None = None
    ) -> Answered[MessageT]:
        """Send all in one write and wait for all answers.

        `deadline_s` is a time of `loop.time()`; nothing is sent after it. Raises DeadlineError, LinkError when the
        connection is or gets lost, ProtocolError when received bytes could not be parsed.
        """
        pending: Pending[MessageT] = Pending(self._loop, [request.what for request in requests], answers=len(requests))

        def enrol() -> None:
            for place, request in enumerate(requests):
                if request.tag in self._waiting:
                    raise BugError(f"{self._name}: {request.what}: tag {request.tag} is in use")
                self._waiting[request.tag] = pending, place

        data = b"".join([request.data for request in requests])
        try:
            return await self._exchange(pending, data, deadline_s=deadline_s, enrol=enrol, on_sent=on_sent)
        finally:
            if pending.left:
                for request in requests:
                    if self._waiting.get(request.tag, (None,))[0] is pending:
                        del self._waiting[request.tag]

    @override
    def _received(self, data: bytes, received_ns: int) -> None:
        for tag, message in self._decode(data):
            if (waiting := self._waiting.pop(tag, None)) is not None:
                pending, place = waiting
                pending.take(place, message, received_ns)
            else:
                self.late += 1
                log.debug("%s: a late answer with tag %s (%d so far)", self._name, tag, self.late)

    @override
    def _take_waiting(self) -> Iterable[Pending[MessageT]]:
        waiting, self._waiting = self._waiting, {}
        return [pending for pending, _ in waiting.values()]
