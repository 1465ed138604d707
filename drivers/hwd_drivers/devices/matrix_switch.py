"""Matrix switches: the size of a matrix, and LineMatrix, the base of drivers whose unit speaks lines of text."""

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from hwd_drivers.codecs.lines import LineDecoder
from hwd_drivers.core.errors import ConfigError, DeviceError, ProtocolError
from hwd_drivers.core.values import Capabilities, Crossconnect, PortSide, Side
from hwd_drivers.devices.ordered import Answered, OrderedConnection, Request
from hwd_drivers.devices.registry import OpenContext

T = TypeVar("T")

_SIZE: Final = re.compile(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})")


class LineOptions(BaseModel):
    """Options of such a switch in a testbed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    connect_within_s: float = Field(default=5.0, gt=0, description="limit for connecting")


def matrix_size(size: str, *, example: str, side_most: int) -> tuple[int, int]:
    """Inputs and outputs of a size such as `8x8`. Raises ConfigError for another text, and over `side_most` of either.

    `example` is in the error.
    """
    if (found := _SIZE.fullmatch(size)) is None:
        raise ConfigError(f"size {size!r}: not a size. Write inputs x outputs, such as {example}")
    inputs, outputs = int(found[1]), int(found[2])
    if max(inputs, outputs) > side_most:
        raise ConfigError(f"size {size}: over the {side_most} inputs or outputs of this model")
    return inputs, outputs


class LineMatrix(ABC):
    """One session with one matrix switch: inputs on side A, outputs on side B, a line for each command and answer.

    A subclass says how lines are cut and what a refusal looks like, and has the abilities of `devices/abilities.py`: it
    asks by `_ask`, or by `_get` for one answer, and reads answers by `_read`.
    """

    end: ClassVar[str] = "\n"
    """What follows each command."""

    def __init__(self, context: OpenContext, connection: OrderedConnection[str]) -> None:
        self.name = context.name
        self._capabilities = context.capabilities
        self._connection = connection
        self._outputs = sum(each.side is Side.B for each in context.capabilities.ends)
        self._inputs = len(context.capabilities.ends) - self._outputs

    @classmethod
    async def open(cls, context: OpenContext) -> Self:
        """Connect; errors as in `OrderedConnection.open`. There is no login."""
        connection: OrderedConnection[str] = await OrderedConnection.open(
            context.dialer,
            context.address,
            name=context.name,
            decode=cls.decoder().feed,
            clock=context.clock,
            deadline_s=asyncio.get_running_loop().time() + context.options_as(LineOptions).connect_within_s,
        )
        return cls(context, connection)

    @classmethod
    @abstractmethod
    def decoder(cls) -> LineDecoder:
        """A new decoder for each session."""

    @abstractmethod
    def _refusal(self, answer: str) -> tuple[str, str] | None:
        """The device's own code and text where it refuses."""

    async def lost(self) -> Exception:
        return await self._connection.lost()

    async def close(self) -> None:
        await self._connection.close()

    async def _ask(
        self, *commands: str, deadline_s: float, on_sent: Callable[[int], None] | None = None
    ) -> Answered[str]:
        """Send all in one write and wait for all answers, also refusals; errors as in `OrderedConnection.request`."""
        requests: list[Request[str]] = [
            Request(data=f"{command}{self.end}".encode(), what=command.partition(" ")[0]) for command in commands
        ]
        return await self._connection.request(*requests, deadline_s=deadline_s, on_sent=on_sent)

    async def _get(self, command: str, reader: Callable[[str], T], deadline_s: float) -> T:
        """The result of `reader` for the answer; errors as those of `_ask` and `_read`."""
        return self._read(command, (await self._ask(command, deadline_s=deadline_s)).messages[0], reader)

    def _read(self, command: str, answer: str, reader: Callable[[str], T]) -> T:
        """The result of `reader`. Raises DeviceError for a refusal; a ProtocolError ends the session."""
        if (refusal := self._refusal(answer)) is not None:
            code, text = refusal
            raise DeviceError(
                f"{self.name}: {command}: the device answered {answer}. Read its state to see what was done",
                device=self.name,
                command=command,
                code=code,
                text=text,
            )
        try:
            return reader(answer)
        except ProtocolError as error:
            raise self._connection.distrust(answer, error) from error

    def _stated(self, found: tuple[int, int]) -> Capabilities:
        """Capabilities of the configured model. Raises ConfigError where the switch has another size."""
        if found != (self._inputs, self._outputs):
            raise ConfigError(
                f"{self.name}: the switch has {found[0]}x{found[1]} ports, "
                f"the testbed says {self._inputs}x{self._outputs}. Correct its size in the testbed file"
            )
        return self._capabilities

    def _crossconnects(self, pairs: Iterable[tuple[int, int]]) -> tuple[Crossconnect, ...]:
        """Crossconnects of input and output, in the order of their ports. Raises ProtocolError for an unknown port."""
        found = []
        for one, other in sorted(pairs):
            pair = crossconnect(one, other)
            if any(end not in self._capabilities.ends for end in pair.ends):
                raise ProtocolError(f"{self.name}: the switch reports {pair}, for which it has no ports")
            found.append(pair)
        return tuple(found)


def crossconnect(one: int, other: int) -> Crossconnect:
    """The crossconnect of an input and an output."""
    return Crossconnect.of(PortSide(port=str(one), side=Side.A), PortSide(port=str(other), side=Side.B))


def numbers(pairs: Sequence[Crossconnect]) -> list[tuple[int, int]]:
    """Input and output of each crossconnect."""
    return [(int(pair.a.port), int(pair.b.port)) for pair in pairs]
