"""Lfiber LF-OSW controllers, which speak the messages of `protocol.py`: one command sets all selectors."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Literal

from pydantic import Field
from typing_extensions import override

from hwd_drivers.core.errors import ConfigError, DeadlineError
from hwd_drivers.core.values import NOT_REPORTED, Capabilities, CrossconnectReading, Exchange, Identity
from hwd_drivers.devices.element_switch import ElementSwitch, PartOptions
from hwd_drivers.devices.elements import changed, one_by
from hwd_drivers.devices.ordered import Answered, OrderedConnection, Request
from hwd_drivers.devices.registry import DriverSpec, Evidence, OpenContext
from hwd_drivers.devices.serial_part import AnswerTime, Deed, SerialPart, Unit
from hwd_drivers.families.osw import protocol
from hwd_drivers.families.osw.protocol import OVERFLOW, Answer, Command, Positions, Query, Type, TypeQuery, Word
from hwd_drivers.transports.serial_line import SerialLine

log = logging.getLogger(__name__)


class OswOptions(PartOptions):
    """Options of a controller in a testbed."""

    ask_type: bool = Field(
        default=True, description="ask <OSW_TYPE_?> for the part; false for a controller that does not answer it"
    )


class TwinOptions(AnswerTime):
    """Behaviour of the twin where no source documents real units."""

    answer: Literal["timing", "at-once"] = Field(
        default="timing", description="<OSW_OUT_OK> comes when the selectors have moved, or at once"
    )
    refusal: str = Field(
        default=OVERFLOW, pattern=r"[A-Za-z][A-Za-z0-9]*", description="word for a set that it cannot do"
    )
    part: str | None = Field(
        default=None,
        pattern=r"[!-;=?-~]{0,64}",
        description="answer to <OSW_TYPE_?>; as the size has it where it is left out, a refusal where it is empty",
    )
    end: str = Field(default="", pattern=r"[\r\n]*", description="what follows an answer: nothing, or an end of line")


class OswPart(SerialPart[Command, Answer]):
    """The messages of a controller. The dark state of a selector is its last, with channel 0."""

    line = SerialLine(baud=9600)
    options = TwinOptions
    denial = (OVERFLOW, "")

    @override
    def answers(self) -> Callable[[bytes], Sequence[Answer]]:
        return protocol.AnswerDecoder().feed

    @override
    def commands(self) -> Callable[[bytes], Sequence[Command]]:
        return protocol.Decoder().feed

    @override
    def refuses(self, answer: Answer) -> bool:
        return isinstance(answer, Word) and answer.text != "OK"

    @override
    def refusal(self, answer: Answer) -> tuple[str, str]:
        return (answer.text if isinstance(answer, Word) else str(answer)), ""

    @override
    def serve(self, command: Command, unit: Unit) -> Deed:
        match command:
            case Query():
                channels = tuple((state + 1) % (unit.channels + 1) for state in unit.states)
                return Deed(answer=self._encode(Positions(channels=channels), unit))
            case TypeQuery() if text := self._part(unit):
                return Deed(answer=self._encode(Type(text=text), unit))
            case Positions(channels=channels) if len(channels) == len(unit.states) and max(channels) <= unit.channels:
                return Deed(
                    answer=self._encode(Word(text="OK"), unit),
                    targets={
                        place: channel - 1 if channel else unit.channels for place, channel in enumerate(channels)
                    },
                    when_moved=unit.options.answer == "timing",
                )
            case _:
                return Deed(answer=self._encode(Word(text=unit.options.refusal), unit))

    @override
    def other(self, command: Command) -> Command:
        return Positions(channels=()) if isinstance(command, Query) else Query()

    @override
    def denied(self, command: Command, unit: Unit, code: str, text: str) -> bytes:
        return self._encode(Word(text=code if code.isalnum() else unit.options.refusal), unit)

    def _part(self, unit: Unit) -> str:
        """Number of selectors and channels, wavelength and fibre, as the vendor writes them."""
        if unit.options.part is not None:
            return str(unit.options.part)
        return f"LF-OSW-{len(unit.states)}X{unit.channels}-1550-SM-TWIN"

    def _encode(self, answer: Answer, unit: Unit) -> bytes:
        return protocol.encode(answer) + str(unit.options.end).encode()


PART: Final = OswPart()


class OswController(ElementSwitch[Answer]):
    """One session with one controller."""

    part = PART
    options = OswOptions

    def __init__(self, context: OpenContext, connection: OrderedConnection[Answer]) -> None:
        super().__init__(context, connection)
        self._channel = (*range(1, self._channels + 1), 0)  # by state
        self._moving = asyncio.Lock()
        self._query: Request[Answer] = Request(
            data=protocol.encode(Query()), what="<OSW_OUT_?>", fits=lambda answer: isinstance(answer, Positions)
        )

    @override
    async def _begin(self, deadline_s: float) -> None:
        """Read the state of the selectors, whatever it is."""
        await self._read(deadline_s=deadline_s)

    async def identify(self, *, deadline_s: float) -> Identity:
        """The part number that the controller reports.

        One that refuses the query, or is not asked, is identified by its number of selectors only.
        """
        part = f"{self._elements.count}x{self._channels}"
        if self._context.options_as(OswOptions).ask_type:
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
            await self._read(deadline_s=deadline_s)
        return Identity(vendor="Lfiber", model=part, serial=NOT_REPORTED, firmware=NOT_REPORTED)

    @override
    async def capabilities(self, *, deadline_s: float) -> Capabilities:
        """Capabilities of the configured size.

        Raises ConfigError where the controller has another number of selectors.
        """
        answered = await self._read(deadline_s=deadline_s)
        found = len(self._positions(answered.messages[0]))
        if found != self._elements.count:
            raise ConfigError(
                f"{self.name}: the controller has {found} selectors, the testbed says {self._elements.count}. "
                "Correct its size in the testbed file"
            )
        return self._context.capabilities

    @override
    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        return self._elements.readings(await self._read_states(deadline_s))

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

    async def _read_states(self, deadline_s: float) -> list[int]:
        return self._states((await self._read(deadline_s=deadline_s)).messages[0])

    async def _set(
        self, states: Sequence[int], deadline_s: float, on_sent: Callable[[int], None] | None
    ) -> Answered[Answer]:
        data = protocol.encode(Positions(channels=tuple([self._channel[state] for state in states])))
        what = data.decode()
        request: Request[Answer] = Request(data=data, what=what, fits=lambda answer: isinstance(answer, Word))
        answered = await self._read(request, deadline_s=deadline_s, on_sent=on_sent)
        self._check(request, answered.messages[1])
        return answered

    async def _read(
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


driver: Final = DriverSpec(
    name="osw",
    open=OswController.open,
    options=OswOptions,
    models={
        "osw": partial(
            one_by,
            "an osw controller",
            count_most=protocol.COUNT_MOST,
            channels_most=protocol.CHANNELS_MOST,
            dark=True,
        )
    },
    twin=f"{__name__}:PART",
    default_port=0,
    sizes={"osw": "4x6"},
    evidence=Evidence.THIN,
)
