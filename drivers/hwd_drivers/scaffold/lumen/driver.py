"""The driver of Lumen switches: one session that reads and changes crossconnects."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import Field

from hwd_drivers.core.errors import ConfigError, DeviceError, ProtocolError
from hwd_drivers.core.values import Capabilities, Crossconnect, CrossconnectReading, Exchange, Identity, PortSide, Side
from hwd_drivers.devices.ordered import Answered, OrderedConnection, Request
from hwd_drivers.devices.registry import OpenContext, Options

from . import protocol
from .protocol import Query

AnswerT = TypeVar("AnswerT", Identity, protocol.Size, protocol.Map, protocol.Done)


class LumenOptions(Options):
    """Options of such a switch in a testbed."""

    connect_within_s: float = Field(default=5.0, gt=0, description="limit for connecting")


class LumenSwitch:
    """One session with one switch; open it with `LumenSwitch.open`."""

    def __init__(self, context: OpenContext, connection: OrderedConnection[protocol.Answer]) -> None:
        self.name = context.name
        self._capabilities = context.capabilities
        self._connection = connection

    @classmethod
    async def open(cls, context: OpenContext) -> "LumenSwitch":
        """Connect; this device has no login."""
        options = context.options_as(LumenOptions)
        connection: OrderedConnection[protocol.Answer] = await OrderedConnection.open(
            context.dialer,
            context.address,
            name=context.name,
            decode=protocol.AnswerDecoder().feed,
            clock=context.clock,
            deadline_s=asyncio.get_running_loop().time() + options.connect_within_s,
        )
        return cls(context, connection)

    async def identify(self, *, deadline_s: float) -> Identity:
        answered = await self._ask(Query.IDENTITY, deadline_s=deadline_s)
        return self._expect("ID", Identity, answered.messages[0])

    async def capabilities(self, *, deadline_s: float) -> Capabilities:
        """Capabilities of the configured model. Raises ConfigError where the switch has another size."""
        answered = await self._ask(Query.SIZE, deadline_s=deadline_s)
        size = self._expect("SIZE", protocol.Size, answered.messages[0])
        outputs = sum(end.side is Side.B for end in self._capabilities.ends)
        inputs = len(self._capabilities.ends) - outputs
        if (size.inputs, size.outputs) != (inputs, outputs):
            raise ConfigError(
                f"{self.name}: the switch has {size.inputs}x{size.outputs} ports, the testbed says {inputs}x{outputs}. "
                "Correct its size in the testbed file"
            )
        return self._capabilities

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        answered = await self._ask(Query.MAP, deadline_s=deadline_s)
        pairs = sorted(self._expect("MAP", protocol.Map, answered.messages[0]).pairs)
        return tuple(CrossconnectReading(crossconnect=self._crossconnect(pair)) for pair in pairs)

    async def change_crossconnects(
        self,
        *,
        remove: Sequence[Crossconnect],
        add: Sequence[Crossconnect],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None = None,
    ) -> Exchange:
        """One `SET`, and in the same write a `MAP` before it, which reads the state before the change."""
        change = protocol.Change(remove=tuple(map(_numbers, remove)), add=tuple(map(_numbers, add)))
        answered = await self._ask(Query.MAP, change, deadline_s=deadline_s, on_sent=on_commanded)
        before = self._expect("MAP", protocol.Map, answered.messages[0]).pairs
        self._expect("SET", protocol.Done, answered.messages[1])
        return Exchange(
            commanded_ns=answered.sent_ns,
            acknowledged_ns=answered.received_ns,
            commands=1,
            before=tuple(map(self._crossconnect, sorted(before))),
        )

    async def lost(self) -> Exception:
        return await self._connection.lost()

    async def close(self) -> None:
        await self._connection.close()

    async def _ask(
        self, *requests: protocol.Request, deadline_s: float, on_sent: Callable[[int], None] | None = None
    ) -> Answered[protocol.Answer]:
        sent: list[Request[protocol.Answer]] = []
        for one in requests:
            data = protocol.encode_request(one)
            sent.append(Request(data=data, what=data.split()[0].decode()))
        return await self._connection.request(*sent, deadline_s=deadline_s, on_sent=on_sent)

    def _expect(self, command: str, kind: type[AnswerT], answer: protocol.Answer) -> AnswerT:
        """The answer to a command. Raises DeviceError for a refusal, ProtocolError for an answer to another request."""
        if isinstance(answer, protocol.Refusal):
            raise DeviceError(
                f"{self.name}: {command}: the device answered NO {answer.code} ({answer.text}). "
                "Read its state to see what was done",
                device=self.name,
                command=command,
                code=answer.code,
                text=answer.text,
            )
        if not isinstance(answer, kind):
            raise ProtocolError(f"{self.name}: {answer!r} came in answer to {command}")
        return answer

    def _crossconnect(self, pair: tuple[int, int]) -> Crossconnect:
        crossconnect = Crossconnect.of(
            PortSide(port=str(pair[0]), side=Side.A), PortSide(port=str(pair[1]), side=Side.B)
        )
        if any(end not in self._capabilities.ends for end in crossconnect.ends):
            raise ProtocolError(f"{self.name}: the switch reports {crossconnect}, for which it has no ports")
        return crossconnect


def _numbers(pair: Crossconnect) -> tuple[int, int]:
    return int(pair.a.port), int(pair.b.port)
