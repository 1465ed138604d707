"""The driver of LF-OSW controllers: one command sets all selectors of a controller."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import override

from hwd_drivers.core.errors import ConfigError, DeadlineError
from hwd_drivers.core.values import Capabilities, Exchange, Identity
from hwd_drivers.devices.element_switch import NOT_REPORTED, ElementSwitch
from hwd_drivers.devices.elements import changed
from hwd_drivers.devices.ordered import Answered, OrderedConnection, Request
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.families.osw import protocol
from hwd_drivers.families.osw.protocol import Answer, Positions, Query, Type, TypeQuery, Word

log = logging.getLogger(__name__)


class OswOptions(BaseModel):
    """Options of a controller in a testbed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    open_within_s: float = Field(default=5.0, gt=0, description="limit for connecting and the first answer")
    ask_type: bool = Field(
        default=True, description="ask <OSW_TYPE_?> for the part; false for a controller that does not answer it"
    )


class OswController(ElementSwitch[Answer]):
    """One session with one controller; open it with `OswController.open`."""

    def __init__(self, context: OpenContext, connection: OrderedConnection[Answer]) -> None:
        super().__init__(context, connection)
        self._channels = len(context.capabilities.elements[0].states) - 1
        self._channel = (*range(1, self._channels + 1), 0)  # by state: the dark state is the last, with channel 0
        self._moving = asyncio.Lock()
        self._ask_type = context.options_as(OswOptions).ask_type
        self._query: Request[Answer] = Request(
            data=protocol.encode(Query()), what="<OSW_OUT_?>", fits=lambda answer: isinstance(answer, Positions)
        )

    @classmethod
    async def open(cls, context: OpenContext) -> "OswController":
        """Connect and read the state of the selectors."""
        options = context.options_as(OswOptions)
        deadline_s = asyncio.get_running_loop().time() + options.open_within_s
        connection: OrderedConnection[Answer] = await OrderedConnection.open(
            context.dialer,
            context.address,
            name=context.name,
            decode=protocol.AnswerDecoder().feed,
            clock=context.clock,
            deadline_s=deadline_s,
            serial=protocol.LINE,
            refuses=lambda answer: isinstance(answer, Word) and answer.refuses,
        )
        try:
            controller = cls(context, connection)
            await controller._ask(deadline_s=deadline_s)
        except BaseException:
            await connection.close()
            raise
        return controller

    async def identify(self, *, deadline_s: float) -> Identity:
        """The part number that the controller reports.

        One that refuses the query, or is not asked, is identified by its number of selectors only.
        """
        part = f"{self._elements.count}x{self._channels}"
        if self._ask_type:
            request: Request[Answer] = Request(
                data=protocol.encode(TypeQuery()), what="<OSW_TYPE_?>", fits=lambda answer: isinstance(answer, Type)
            )
            try:
                answer = (await self._connection.request(request, deadline_s=deadline_s)).messages[0]
            except DeadlineError as error:
                raise DeadlineError(
                    f"{error}. A controller that does not know <OSW_TYPE_?> needs `options: {{ask_type: false}}`"
                ) from error
            if isinstance(answer, Type):
                part = answer.text
        else:
            await self._ask(deadline_s=deadline_s)
        return Identity(vendor="Lfiber", model=part, serial=NOT_REPORTED, firmware=NOT_REPORTED)

    @override
    async def capabilities(self, *, deadline_s: float) -> Capabilities:
        """Capabilities of the configured size.

        Raises ConfigError where the controller has another number of selectors.
        """
        answered = await self._ask(deadline_s=deadline_s)
        found = len(self._positions(answered.messages[0]))
        if found != self._elements.count:
            raise ConfigError(
                f"{self.name}: the controller has {found} selectors, the testbed says {self._elements.count}. "
                "Correct its size in the testbed file"
            )
        return self._context.capabilities

    @override
    async def _read_states(self, deadline_s: float) -> Sequence[int]:
        return self._states((await self._ask(deadline_s=deadline_s)).messages[0])

    @override
    async def _move(
        self, targets: Mapping[int, int], deadline_s: float, on_commanded: Callable[[int], None] | None
    ) -> Exchange:
        """Set all selectors with one command. The others' state is read before, and again in the write of the command.

        A selector that another client moved in between is set back to that client's state.
        """
        async with self._moving:  # a simultaneous read would otherwise undo this move
            expected: Sequence[int] = [0] * self._elements.count
            if len(targets) < self._elements.count:
                expected = await self._read_states(deadline_s)
            others, sets = expected, list[Answered[Answer]]()
            while True:
                wanted = changed(others, targets)
                sets.append(await self._set(wanted, deadline_s, on_commanded if not sets else None))
                found = self._states(sets[-1].messages[0])
                theirs = {
                    place: state
                    for place, state in enumerate(found)
                    if place not in targets and state != expected[place]
                }
                if not theirs:
                    break
                names = ", ".join(str(place + 1) for place in theirs)
                log.warning("%s: another client moved selector %s meanwhile; restoring its state", self.name, names)
                others, expected = changed(others, theirs), wanted
        return Exchange(
            commanded_ns=sets[0].sent_ns,
            acknowledged_ns=sets[-1].received_ns,
            commands=len(sets),
            before=self._elements.crossconnects(self._states(sets[0].messages[0])),
        )

    async def _set(
        self, states: Sequence[int], deadline_s: float, on_sent: Callable[[int], None] | None
    ) -> Answered[Answer]:
        data = protocol.encode(Positions(channels=tuple([self._channel[state] for state in states])))
        what = data.decode()
        request: Request[Answer] = Request(data=data, what=what, fits=lambda answer: isinstance(answer, Word))
        answered = await self._ask(request, deadline_s=deadline_s, on_sent=on_sent)
        done = answered.messages[1]
        if not isinstance(done, Word) or done.refuses:
            raise self._refusal(what, done.text if isinstance(done, Word) else str(done), "")
        return answered

    async def _ask(
        self, *then: Request[Answer], deadline_s: float, on_sent: Callable[[int], None] | None = None
    ) -> Answered[Answer]:
        """Read positions, and the answers to `then` in the same write."""
        return await self._connection.request(self._query, *then, deadline_s=deadline_s, on_sent=on_sent)

    def _positions(self, answer: Answer) -> tuple[int, ...]:
        if isinstance(answer, Positions):
            return answer.channels
        raise self._refusal("<OSW_OUT_?>", answer.text, "")

    def _states(self, answer: Answer) -> list[int]:
        channels = self._positions(answer)
        if len(channels) != self._elements.count or max(channels) > self._channels:
            raise ConfigError(
                f"{self.name}: the controller is at {channels}, the testbed says {self._elements.count} selectors "
                f"of {self._channels} channels. Correct its size in the testbed file"
            )
        return [channel - 1 if channel else self._channels for channel in channels]
