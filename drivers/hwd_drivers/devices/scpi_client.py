"""ScpiClient: lines of SCPI and their answers over one connection, for the drivers of all SCPI families."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from hwd_drivers.codecs.scpi import NO_ERROR, LineDecoder, QueuedError, parse_error, split_answers
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import DeadlineError, DeviceError, ProtocolError
from hwd_drivers.devices.ordered import Answered, OrderedConnection, Request
from hwd_drivers.transports.dial import Dialer
from hwd_drivers.transports.serial_line import SerialLine

SILENCE_S: Final = 1.0
"""After so long without an answer the error queue is read: SCPI devices do not answer a refused command."""
ERROR_QUERY: Final = ":SYST:ERR?"

Message = str | QueuedError

log = logging.getLogger(__name__)


class ScpiClient:
    """One session with one device. Each line has a query, whose answer shows that the whole line is done.

        client = await ScpiClient.open(dialer, "10.0.0.5:5025", name="ocs1", clock=clock, deadline_s=..., end="\\r\\n")
        answered = await client.ask(":oxc:swit:conn:add (@1),(@9);stat?", answers=1, deadline_s=loop.time() + 2)

    Where an answer is missing, the error queue is read, and its error is raised as DeviceError. `pause_s` is the pause
    between an answer and the next line. A line that is abandoned half way ends the connection: its answer could be
    taken for that of the next.
    """

    def __init__(self, name: str, *, end: str, pause_s: float) -> None:
        self._name = name
        self._end = end.encode()
        self._pause_s = pause_s
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self._ready_s = 0.0
        self._decoder = LineDecoder()
        self._left = 0
        self._asked_why: asyncio.Future[None] | None = None
        self._connection: OrderedConnection[Message]

    @classmethod
    async def open(
        cls,
        dialer: Dialer,
        address: str,
        *,
        name: str,
        clock: Clock,
        deadline_s: float,
        end: str = "\n",
        pause_s: float = 0.0,
        serial: SerialLine | None = None,
    ) -> "ScpiClient":
        """Connect; errors as in `OrderedConnection.open`."""
        client = cls(name, end=end, pause_s=pause_s)
        client._connection = await OrderedConnection.open(
            dialer,
            address,
            name=name,
            decode=client._decode,
            clock=clock,
            deadline_s=deadline_s,
            serial=serial,
            refuses=_is_error,
        )
        return client

    async def ask(
        self,
        line: str,
        *,
        answers: int,
        deadline_s: float,
        what: str = "",
        on_sent: Callable[[int], None] | None = None,
    ) -> Answered[str]:
        """Send a line and wait for its answers. `what` is the text for errors.

        Raises DeviceError with the error of the queue where an answer is missing; otherwise as
        `OrderedConnection.request`.
        """
        answered = await self._exchange(line, answers, deadline_s, what or line, on_sent)
        texts = []
        for message in answered.messages:
            if isinstance(message, QueuedError):
                raise self._refused(what or line, message)
            texts.append(message)
        return Answered(messages=tuple(texts), sent_ns=answered.sent_ns, received_ns=answered.received_ns)

    async def error(self, *, deadline_s: float) -> QueuedError:
        """The oldest error, removed from the queue."""
        (message,) = (await self._exchange(ERROR_QUERY, 1, deadline_s, ERROR_QUERY, None)).messages
        if isinstance(message, QueuedError):
            return message
        raise self.distrust(message, ProtocolError(f"{ERROR_QUERY}: {message[:60]!r} is not a code and a text"))

    def refused(self, what: str, error: QueuedError) -> DeviceError:
        """The exception for an error of the queue."""
        return DeviceError(
            f"{self._name}: {what}: the device says {error}. Read its state to see what was done",
            device=self._name,
            command=what,
            code=str(error.code),
            text=error.text,
        )

    def distrust(self, answer: object, error: ProtocolError) -> ProtocolError:
        """End the connection because an answer makes no sense; returns the error to raise."""
        return self._connection.distrust(answer, error)

    async def lost(self) -> Exception:
        return await self._connection.lost()

    async def close(self) -> None:
        await self._connection.close()

    async def _exchange(
        self, line: str, answers: int, deadline_s: float, what: str, on_sent: Callable[[int], None] | None
    ) -> Answered[Message]:
        allowed_s = deadline_s - self._loop.time()
        async with self._my_turn(what, deadline_s):
            self._left = answers
            request: Request[Message] = Request(data=line.encode() + self._end, what=what, answers=answers)
            wait_s = min(SILENCE_S, (deadline_s - self._loop.time()) / 2)
            timer = self._loop.call_later(max(0.0, wait_s), self._ask_why)
            try:
                answered = await self._connection.request(request, deadline_s=deadline_s, on_sent=on_sent)
                timer.cancel()
                if self._asked_why is not None:
                    await self._await_why(self._asked_why, deadline_s)
            except DeadlineError as error:
                hint = self._connection.hint
                raise DeadlineError(f"{self._name}: {what}: no answer within {allowed_s:.3g} s{hint}") from error
            except asyncio.CancelledError:
                self._connection.cut(f"{what} was abandoned before its answer came")
                raise
            finally:
                timer.cancel()
                self._ready_s = self._loop.time() + self._pause_s
        return answered

    @asynccontextmanager
    async def _my_turn(self, what: str, deadline_s: float) -> AsyncIterator[None]:
        """One line at a time, with the pause before each."""
        try:
            async with asyncio.timeout_at(deadline_s):
                await self._turn.acquire()
        except TimeoutError:
            raise DeadlineError(f"{self._name}: {what}: not sent, earlier lines were not answered in time") from None
        try:
            if (pause_s := self._ready_s - self._loop.time()) > 0:
                await asyncio.sleep(min(pause_s, max(0.0, deadline_s - self._loop.time())))
            yield
        finally:
            self._turn.release()

    async def _await_why(self, asked: asyncio.Future[None], deadline_s: float) -> None:
        """Wait for the answer to our query of the error queue, after the answers to the line came late."""
        _, pending = await asyncio.wait((asked,), timeout=max(0.0, deadline_s - self._loop.time()))
        if pending:
            self._asked_why = None
            self._connection.cut(f"{ERROR_QUERY} was not answered")

    def _ask_why(self) -> None:
        self._asked_why = self._loop.create_future()
        self._connection.send_last(ERROR_QUERY.encode() + self._end)

    def _decode(self, data: bytes) -> list[Message]:
        messages: list[Message] = []
        for line in self._decoder.feed(data):
            for text in split_answers(line):
                error = parse_error(text)
                if error is None:
                    self._left -= 1
                    messages.append(text)
                    continue
                asked, self._asked_why = self._asked_why, None
                if asked is not None:
                    asked.set_result(None)
                if self._left > 0 or asked is None:
                    self._left = 0
                    messages.append(error)
        return messages

    def _refused(self, what: str, error: QueuedError) -> DeviceError | ProtocolError:
        if error.code != NO_ERROR:
            return self.refused(what, error)
        return self.distrust(error, ProtocolError(f"{what}: not answered, and the error queue says {error}"))


def _is_error(message: Message) -> bool:
    return isinstance(message, QueuedError)
