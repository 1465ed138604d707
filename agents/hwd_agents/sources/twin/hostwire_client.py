"""HostWireClient: the agent's end of one connection to a twin host."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any, TypeVar

from typing_extensions import override

from hwd_agents.sources.twin import hostwire
from hwd_drivers.core.errors import DeadlineError, LinkError, ProtocolError, RefusedError

AnswerT = TypeVar("AnswerT", bound=hostwire.Answer)
Report = hostwire.Welcome | hostwire.ClockStepped | hostwire.LinkReport | hostwire.PhyReport | hostwire.Datagram
"""What a twin reports without being asked."""


class HostWireClient(asyncio.Protocol):
    """One connection, used once. `welcome` is a future of the twin's first frame.

    `lost` is a future whose result is the exception that ended the connection. `on_report` is called with each report
    of the twin, in order.
    """

    def __init__(self, host: str, on_report: Callable[[Report], None]) -> None:
        loop = asyncio.get_running_loop()
        self._host = host
        self.on_report = on_report
        self._unframer = hostwire.Unframer()
        self._transport: asyncio.Transport | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[hostwire.Answer]] = {0: loop.create_future()}
        self.welcome: asyncio.Future[hostwire.Welcome] = loop.create_future()
        self.lost: asyncio.Future[LinkError | ProtocolError] = loop.create_future()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.send(hostwire.Hello(host=self._host))

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._end(LinkError(f"{self._host}: its twin disconnected" + (f": {exc}" if exc else "")))

    @override
    def data_received(self, data: bytes) -> None:
        try:
            for payload in self._unframer.feed(data):
                self._take(hostwire.decode_from_twin(payload))
        except ProtocolError as error:
            self._end(error)

    async def greeted(self) -> hostwire.Welcome:
        """Wait for the twin's Welcome and its whole snapshot. Raises what ended the connection before that."""
        snapshot = self._waiting[0]
        either: list[asyncio.Future[Any]] = [snapshot, self.lost]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not snapshot.done():
            raise self.lost.result()
        match snapshot.result():
            case hostwire.Refused(why=why):
                raise LinkError(f"{self._host}: its twin refused us: {why}")
            case _ if self.welcome.done():
                return self.welcome.result()
            case _:
                raise ProtocolError(f"{self._host}: its twin sent its state before Welcome")

    async def ask(
        self, make: Callable[[int], hostwire.FromAgent], expected: type[AnswerT], *, deadline_s: float
    ) -> AnswerT:
        """Ask, and wait for the answer.

        Raises LinkError when the twin cannot answer or disconnects, RefusedError when it refuses, DeadlineError after
        `deadline_s`.
        """
        if self.lost.done():
            raise self.lost.result()
        number = next(self._numbers)
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        self.send(make(number))
        try:
            async with asyncio.timeout(deadline_s):
                answer = await waiting
        except TimeoutError as error:
            raise DeadlineError(f"{self._host}: its twin did not answer in {deadline_s:g} s") from error
        finally:
            self._waiting.pop(number, None)
        match answer:
            case hostwire.Refused(why=why, forbidden=True):
                raise RefusedError(why)
            case hostwire.Refused(why=why):
                raise LinkError(why)
            case _ if isinstance(answer, expected):
                return answer
            case _:
                raise ProtocolError(f"{self._host}: its twin answered {type(answer).__name__}, not {expected.__name__}")

    def send(self, frame: hostwire.FromAgent) -> None:
        """Send without waiting for an answer."""
        if self._transport is not None:
            self._transport.write(hostwire.encode_frame(frame))

    def close(self) -> None:
        self._end(LinkError(f"{self._host}: we disconnected from its twin"))

    def _take(self, frame: hostwire.FromTwin) -> None:
        match frame:
            case hostwire.Welcome():
                if self.welcome.done():
                    raise ProtocolError(f"{self._host}: its twin sent Welcome twice")
                self.welcome.set_result(frame)
                self.on_report(frame)
            case hostwire.ClockStepped() | hostwire.LinkReport() | hostwire.PhyReport() | hostwire.Datagram():
                self.on_report(frame)
            case _:
                waiting = self._waiting.get(frame.id)
                if waiting is not None and not waiting.done():  # else the asker has given up
                    waiting.set_result(frame)

    def _end(self, cause: LinkError | ProtocolError) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        if self.lost.done():
            return
        self.lost.set_result(cause)
        for number, waiting in self._waiting.items():
            if number and not waiting.done():
                waiting.set_exception(cause)
