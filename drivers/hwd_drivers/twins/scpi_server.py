"""ScpiSession: one client of an SCPI twin. Commands are done one after the other; only queries are answered."""

import logging
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from typing_extensions import override

from hwd_drivers.codecs.scpi import (
    DATA_TYPE_ERROR,
    ERRORS_STATUS,
    EVENTS_STATUS,
    INPUT_OVERRUN,
    OPERATION_COMPLETE_EVENT,
    OUT_OF_RANGE,
    POWER_ON_EVENT,
    REQUEST_STATUS,
    Command,
    ErrorQueue,
    LineDecoder,
    ScpiError,
    expect,
    format_error,
    parse_line,
)
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.twins.scpi_tree import ScpiTree
from hwd_drivers.twins.server import TwinServer, TwinSession

WAITING_LIMIT: Final = 4_096
"""Most lines that wait for those before them."""

MASK_MOST: Final = 255
"""Highest value of an eight-bit mask."""

log = logging.getLogger(__name__)

_MASK = re.compile(r"[0-9]{1,5}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A command of the tree: the numbers in its header, and its parameters."""

    numbers: tuple[int, ...]
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """Result of a command: the answer of a query, and how long later commands must wait."""

    answer: str | None = None
    busy_s: float = 0.0


Handler = Callable[[Call], Done]
"""Executes one command. Raises ScpiError, which goes into the error queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScpiDialect:
    """Dialect of a device.

    `end` follows each answer. `joins`: answers to the queries of one line are joined by `;`; otherwise each has its own
    line.

    `drops_line`: after an error the rest of the line is not executed.
    """

    end: str = "\r\n"
    joins: bool = True
    drops_line: bool = False


def common(errors: ErrorQueue, *, identity: str, reset: Callable[[], float]) -> Mapping[str, Handler]:
    """The common commands of all devices. `reset` returns how long it takes."""

    status = StatusRegisters(errors)

    def all_errors(call: Call) -> Done:
        return Done(answer=",".join(map(format_error, errors.pop_all())))

    def none(answer: str | None) -> Handler:
        def handler(call: Call) -> Done:
            expect(call.parameters, 0, 0)
            return Done(answer=answer)

        return handler

    return {
        **status.table(),
        "*IDN?": none(identity),
        "*RST": lambda call: Done(busy_s=reset()),
        "*OPC?": none("1"),
        "*WAI": none(None),
        "*TST?": none("0"),
        "SYSTem:ERRor[:NEXT]?": lambda call: Done(answer=format_error(errors.pop())),
        "SYSTem:ERRor:ALL?": all_errors,
    }


class StatusRegisters:
    """Status byte, event register and their masks (IEEE 488.2, 11), of one session; errors of the queue set events."""

    def __init__(self, errors: ErrorQueue) -> None:
        self._errors = errors
        self._events = POWER_ON_EVENT
        self._enabled = {"*ESE": 0, "*SRE": 0}

    def table(self) -> Mapping[str, Handler]:
        return {
            "*CLS": self._clear,
            "*ESR?": self._take_events,
            "*ESE": lambda call: self._enable("*ESE", call),
            "*ESE?": lambda call: self._read_mask("*ESE", call),
            "*SRE": lambda call: self._enable("*SRE", call),
            "*SRE?": lambda call: self._read_mask("*SRE", call),
            "*STB?": self._status,
            "*OPC": self._complete,
        }

    def _clear(self, call: Call) -> Done:
        expect(call.parameters, 0, 0)
        self._errors.clear()
        self._events = 0
        return Done()

    def _take_events(self, call: Call) -> Done:
        """Read the event register, which clears it."""
        expect(call.parameters, 0, 0)
        found = self._events | self._errors.events
        self._events = self._errors.events = 0
        return Done(answer=str(found))

    def _enable(self, mask: str, call: Call) -> Done:
        expect(call.parameters, 1, 1)
        if not _MASK.fullmatch(call.parameters[0]):
            raise ScpiError(DATA_TYPE_ERROR, call.parameters[0][:16])
        value = int(call.parameters[0])
        if value > MASK_MOST:
            raise ScpiError(OUT_OF_RANGE, f"{value}, limit {MASK_MOST}")
        self._enabled[mask] = value & ~REQUEST_STATUS if mask == "*SRE" else value
        return Done()

    def _read_mask(self, mask: str, call: Call) -> Done:
        expect(call.parameters, 0, 0)
        return Done(answer=str(self._enabled[mask]))

    def _status(self, call: Call) -> Done:
        expect(call.parameters, 0, 0)
        value = ERRORS_STATUS if len(self._errors) else 0
        if (self._events | self._errors.events) & self._enabled["*ESE"]:
            value |= EVENTS_STATUS
        return Done(answer=str(value | (REQUEST_STATUS if value & self._enabled["*SRE"] else 0)))

    def _complete(self, call: Call) -> Done:
        """Commands are done one after the other: all earlier ones are done."""
        expect(call.parameters, 0, 0)
        self._events |= OPERATION_COMPLETE_EVENT
        return Done()


class ScpiSession(TwinSession):
    """A session of SCPI with one client. `tree` has the handler of each header, `errors` the errors; `elsewhere`
    returns an answer to another command.
    """

    def __init__(
        self,
        server: TwinServer,
        *,
        tree: ScpiTree[Handler],
        errors: ErrorQueue,
        dialect: ScpiDialect,
        elsewhere: str,
    ) -> None:
        super().__init__(server)
        self._tree = tree
        self._errors = errors
        self._dialect = dialect
        self._elsewhere = elsewhere
        self._decoder = LineDecoder()
        self._lines: deque[str] = deque()
        self._under_way: Iterator[float] | None = None

    @override
    def data_received(self, data: bytes) -> None:
        try:
            self._lines += self._decoder.feed(data)
        except ProtocolError as error:
            log.warning("twin %s: %s; ending the session", self.server.mirror.name, error)
            self._errors.push(ScpiError(INPUT_OVERRUN))
            self.abort()
            return
        if len(self._lines) > WAITING_LIMIT:
            log.warning("twin %s: over %d lines wait; ending the session", self.server.mirror.name, WAITING_LIMIT)
            self.abort()
        elif self._under_way is None:
            self._go_on(b"")

    def _go_on(self, _: bytes) -> None:
        """Execute waiting lines until a command takes time."""
        while self._under_way is not None or self._lines:
            if self._under_way is None:
                self._under_way = self._execute(self._lines.popleft())
            for busy_s in self._under_way:
                if busy_s > 0:
                    self.later(busy_s, self._go_on, b"")
                    return
            self._under_way = None

    def _execute(self, line: str) -> Iterator[float]:
        """Execute a line; yields how long to wait before it continues."""
        answers: list[str] = []
        path = ""
        try:
            commands = parse_line(line)
        except ScpiError as error:
            self._errors.push(error)
            return
        for command in commands:
            try:
                path, done = self._do(command, path)
            except ScpiError as error:
                self._errors.push(error)
                if self._dialect.drops_line:
                    break
                continue
            yield done.busy_s
            if done.answer is not None:
                answers.append(done.answer)
        if not answers:
            return
        if self.server.faults.take_wrong():
            answers[-1] = self._elsewhere
        end = self._dialect.end
        text = f"{';'.join(answers)}{end}" if self._dialect.joins else "".join(f"{answer}{end}" for answer in answers)
        spoiled = self.server.faults.spoil(text.encode())
        yield self.server.faults.slow_s
        if spoiled is not None:
            self.send(spoiled)

    def _do(self, command: Command, path: str) -> tuple[str, Done]:
        found = self._tree.find(command.header, path)
        return found.path, found.value(Call(numbers=found.numbers, parameters=command.parameters))
