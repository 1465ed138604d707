"""SocketLines: a line bank behind a socket, by the protocol of this folder."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import DeviceError
from hwd_drivers.devices.ordered import Answered, OrderedConnection, Request
from hwd_drivers.families.ttl import protocol
from hwd_drivers.families.ttl.protocol import Answer, Bank, Done, Levels, Pulse, Refusal, Set
from hwd_drivers.transports.dial import Dialer


class SocketLines:
    """Lines by their numbers, as `ChipLines`; open it with `SocketLines.open`."""

    def __init__(self, name: str, connection: OrderedConnection[Answer]) -> None:
        self._name = name
        self._connection = connection

    @classmethod
    async def open(cls, dialer: Dialer, address: str, *, name: str, clock: Clock, deadline_s: float) -> "SocketLines":
        connection: OrderedConnection[Answer] = await OrderedConnection.open(
            dialer,
            address,
            name=name,
            decode=protocol.AnswerDecoder().feed,
            clock=clock,
            deadline_s=deadline_s,
        )
        return cls(name, connection)

    async def identify(self, *, deadline_s: float) -> Bank:
        (bank,) = (await self._ask(protocol.Info(), deadline_s=deadline_s)).messages
        assert isinstance(bank, Bank)  # as `_fits` has it
        return bank

    async def read(self, lines: Sequence[int], *, deadline_s: float) -> Mapping[int, bool]:
        (found,) = (await self._ask(protocol.Read(lines=tuple(lines)), deadline_s=deadline_s)).messages
        assert isinstance(found, Levels)
        return found.levels

    async def carry_out(
        self, orders: Sequence[Set | Pulse], *, deadline_s: float, on_sent: Callable[[int], None] | None = None
    ) -> int:
        """Send all in one write; a bank executes one request after the other. Returns as `ChipLines.carry_out`.

        Raises DeviceError where the bank refuses.
        """
        return (await self._ask(*orders, deadline_s=deadline_s, on_sent=on_sent)).sent_ns

    async def lost(self) -> Exception:
        return await self._connection.lost()

    async def close(self) -> None:
        await self._connection.close()

    async def _ask(
        self, *requests: protocol.Request, deadline_s: float, on_sent: Callable[[int], None] | None = None
    ) -> Answered[Answer]:
        """Raises DeviceError for a refusal."""
        sent = [
            Request(data=protocol.encode_request(one), what=_words(one), fits=partial(_fits, one)) for one in requests
        ]
        answered = await self._connection.request(*sent, deadline_s=deadline_s, on_sent=on_sent)
        for request, answer in zip(sent, answered.messages, strict=True):
            if isinstance(answer, Refusal):
                what = request.what
                raise DeviceError(
                    f"{self._name}: {what}: the line bank answered {answer.code} ({answer.text}). Check options.parts",
                    device=self._name,
                    command=what,
                    code=answer.code,
                    text=answer.text,
                )
        return answered


def _fits(request: protocol.Request, answer: Answer) -> bool:
    match request, answer:
        case (_, Refusal()) | (protocol.Info(), Bank()) | (protocol.Set() | protocol.Pulse(), Done()):
            return True
        case protocol.Read(lines=lines), Levels(levels=levels):
            return levels.keys() == set(lines)
        case _:
            return False


def _words(request: protocol.Request) -> str:
    return protocol.encode_request(request).decode().strip()[:100]
