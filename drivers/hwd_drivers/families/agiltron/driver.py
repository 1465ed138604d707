"""The driver of Agiltron SelfAlign switches, whose state cannot be read."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import override

from hwd_drivers.core.errors import DeadlineError
from hwd_drivers.core.values import CrossconnectReading, Exchange, Identity
from hwd_drivers.devices.element_switch import NOT_REPORTED, ElementSwitch
from hwd_drivers.devices.ordered import OrderedConnection, Request
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.families.agiltron import protocol
from hwd_drivers.families.agiltron.protocol import Answer, Select, answer_to


class AgiltronOptions(BaseModel):
    """Options of an Agiltron switch in a testbed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    open_within_s: float = Field(default=5.0, gt=0, description="limit for connecting")


class AgiltronSwitch(ElementSwitch[Answer]):
    """One session with one switch; open it with `AgiltronSwitch.open`.

    A reading is the last state that this session set, and empty before: the device has no query that does not move it.
    """

    def __init__(self, context: OpenContext, connection: OrderedConnection[Answer]) -> None:
        super().__init__(context, connection)
        self._last_set: int | None = None

    @classmethod
    async def open(cls, context: OpenContext) -> "AgiltronSwitch":
        """Connect to the switch. Nothing is sent: every message would move the light."""
        options = context.options_as(AgiltronOptions)
        connection: OrderedConnection[Answer] = await OrderedConnection.open(
            context.dialer,
            context.address,
            name=context.name,
            decode=protocol.AnswerDecoder().feed,
            clock=context.clock,
            deadline_s=asyncio.get_running_loop().time() + options.open_within_s,
            serial=protocol.LINE,
            refuses=lambda answer: answer.refuses,
        )
        return cls(context, connection)

    async def identify(self, *, deadline_s: float) -> Identity:
        """Identity from the testbed; the switch reports none. Raises the cause of the session's end, if it is over."""
        await self._still_there(deadline_s)
        channels = len(self._context.capabilities.elements[0].states)
        return Identity(vendor="Agiltron", model=f"SelfAlign 1x{channels}", serial=NOT_REPORTED, firmware=NOT_REPORTED)

    @override
    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        """The last state that this session set; none before."""
        await self._still_there(deadline_s)
        return () if self._last_set is None else self._elements.readings((self._last_set,))

    @override
    async def _read_states(self, deadline_s: float) -> Sequence[int]:
        return () if self._last_set is None else (self._last_set,)

    @override
    async def _move(
        self, targets: Mapping[int, int], deadline_s: float, on_commanded: Callable[[int], None] | None
    ) -> Exchange:
        select = Select(port=targets[0] + 1)
        what = f"select port {select.port}"
        expected = answer_to(select).command
        request: Request[Answer] = Request(
            data=protocol.encode_command(select), what=what, fits=lambda answer: answer.command == expected
        )
        previous = self._last_set

        def sent(at_ns: int) -> None:
            self._last_set = None  # unknown until the answer
            if on_commanded is not None:
                on_commanded(at_ns)

        answered = await self._connection.request(request, deadline_s=deadline_s, on_sent=sent)
        self._last_set = previous
        if answered.messages[0].refuses:
            raise self._refusal(what, answered.messages[0].result.hex(), "")
        self._last_set = targets[0]
        return Exchange(commanded_ns=answered.sent_ns, acknowledged_ns=answered.received_ns, commands=1)

    async def _still_there(self, deadline_s: float) -> None:
        if deadline_s <= asyncio.get_running_loop().time():
            raise DeadlineError(f"{self.name}: its deadline is over. Allow more time")
        await self._connection.request(deadline_s=deadline_s)
