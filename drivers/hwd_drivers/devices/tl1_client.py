"""Tl1Client: TL1 commands and their answers over one connection, for the drivers of all TL1 families."""

import itertools
import logging
from collections.abc import Callable
from typing import TypeVar

from hwd_drivers.codecs.tl1 import CTAG_MAX, AnswerDecoder, encode_command
from hwd_drivers.codecs.tl1_messages import Answer, Command, Completion
from hwd_drivers.codecs.tl1_words import quote
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import DeviceError, LoginError, ProtocolError
from hwd_drivers.devices.connection import Answered, Connection, Request
from hwd_drivers.transports.dial import Dialer
from hwd_drivers.transports.mask import Mask
from hwd_drivers.transports.masked_dialer import mask_of

ReadT = TypeVar("ReadT")

log = logging.getLogger(__name__)


class Tl1Client:
    """One TL1 session; gives each command its CTAG. Autonomous messages and acknowledgements are logged."""

    def __init__(self, name: str, connection: Connection[Answer]) -> None:
        self._name = name
        self._connection = connection
        self._ctags = itertools.cycle(range(1, CTAG_MAX + 1))

    @classmethod
    async def open(
        cls, dialer: Dialer, address: str, *, name: str, clock: Clock, deadline_s: float, prompt: str = ""
    ) -> "Tl1Client":
        """Connect; errors as in `Connection.open`.

        `prompt` is the text that a ready element prints.
        """
        inbox = _Inbox(name, prompt, mask_of(dialer))
        connection = await Connection.open(
            dialer, address, name=name, decode=inbox.decode, clock=clock, deadline_s=deadline_s
        )
        return cls(name, connection)

    async def ask(
        self, *commands: Command, deadline_s: float, on_sent: Callable[[int], None] | None = None
    ) -> Answered[Answer]:
        """Send all in one write and wait for all answers, also refusals; errors as in `Connection.request`."""
        return await self._connection.request(*map(self._request, commands), deadline_s=deadline_s, on_sent=on_sent)

    async def log_in(self, user: str, password: str, *, deadline_s: float, accepted: str | None = None) -> None:
        """ACT-USER. `accepted`: words of a denial that is as good as a login.

        Raises LoginError where the element refuses user or password.
        """
        command = Command(verb="ACT-USER", aid=quote(user), positional=(password,))
        (answer,) = (await self.ask(command, deadline_s=deadline_s)).messages
        if answer.code is not Completion.COMPLD and (accepted is None or accepted not in comment(answer).lower()):
            text = f"{self._name}: the switch refuses the login of {user}: {words(answer)}. Check user and password"
            raise LoginError(text, device=self._name, command="ACT-USER", code=answer.error, text=comment(answer))

    def done(self, what: str, answer: Answer) -> Answer:
        """The answer to a command that was done; otherwise raises DeviceError with the device's own words."""
        if answer.code is Completion.COMPLD:
            return answer
        raise DeviceError(
            f"{self._name}: {what}: the device answered {words(answer)}. Read its state to see what was done",
            device=self._name,
            command=what,
            code=answer.error or answer.code,
            text=comment(answer),
        )

    def read(self, what: str, answer: Answer, reader: Callable[[Answer], ReadT]) -> ReadT:
        """The result of `reader` for the answer.

        Raises DeviceError for a refusal; a ProtocolError ends the connection.
        """
        self.done(what, answer)
        try:
            return reader(answer)
        except ProtocolError as error:
            raise self.distrust(answer, error) from error

    def distrust(self, answer: Answer, error: ProtocolError) -> ProtocolError:
        """End the connection because an answer makes no sense; returns the error to raise."""
        return self._connection.distrust(answer, error)

    async def lost(self) -> Exception:
        return await self._connection.lost()

    async def close(self, user: str | None = None) -> None:
        """Log out a user, since an element may allow few sessions, and close without waiting for the answer."""
        if user is not None:
            self._connection.send_last(self._request(Command(verb="CANC-USER", aid=quote(user))).data)
        await self._connection.close()

    def _request(self, command: Command) -> Request:
        ctag = str(next(self._ctags))
        return Request(tag=ctag, data=encode_command(command, ctag=ctag), what=command.verb)


def words(answer: Answer) -> str:
    """`DENY IIAC (Invalid OXC port: 99)`"""
    text = comment(answer)
    return f"{answer.code} {answer.error}".rstrip() + (f" ({text})" if text else "")


def comment(answer: Answer) -> str:
    return "; ".join(answer.comments)


class _Inbox:
    """Sorts answers by their tags; unsolicited messages are logged."""

    def __init__(self, name: str, prompt: str, mask: Mask) -> None:
        self._name = name
        self._mask = mask
        self._decoder = AnswerDecoder(prompt=prompt)

    def decode(self, data: bytes) -> list[tuple[str, Answer]]:
        answers: list[tuple[str, Answer]] = []
        for message in self._decoder.feed(data):
            if isinstance(message, Answer):
                answers.append((message.ctag, message))
            else:
                log.debug("%s: unasked: %s", self._name, self._mask.text(str(message)))
        return answers
