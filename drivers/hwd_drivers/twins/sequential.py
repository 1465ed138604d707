"""OneServerTwin: a twin with one protocol at one address; SequentialTwin does one command at a time."""

import asyncio
import logging
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar

from pydantic import BaseModel
from typing_extensions import override

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Capabilities, CrossconnectState
from hwd_drivers.transports.dial import Dialer
from hwd_drivers.twins.mirror import Mirror
from hwd_drivers.twins.registry import options_of
from hwd_drivers.twins.server import Denial, Faults, TwinServer, TwinSession
from hwd_drivers.twins.timing import Settling, SwitchTiming

CommandT = TypeVar("CommandT")
OptionsT = TypeVar("OptionsT", bound=BaseModel)

WAITING_MAX: Final = 1024
"""Most commands that wait in a session; a client that sends more is cut."""

APART_S: Final = 1e-6
"""Gap between two slow answers: timers of the same time have no order."""

log = logging.getLogger(__name__)


class OneServerTwin(ABC, Generic[OptionsT]):
    """A twin with one protocol at one address; `mirror` is its optics, `faults` its faults, `serial` its number.

    `protocol`: name of the protocol; `options_type`: type of the options.
    """

    protocol: ClassVar[str]
    options_type: type[OptionsT]

    def __init__(
        self,
        *,
        name: str,
        capabilities: Capabilities,
        timing: SwitchTiming,
        draws: Draws,
        clock: Clock,
        dialer: Dialer,
        address: str,
        options: Mapping[str, Json],
    ) -> None:
        self.options = options_of(self.options_type, name, options)
        self.name = name
        self.capabilities = capabilities
        self.serial = f"T{draws.stream(f'twin/{name}/serial').randrange(10**6):06d}"
        self.mirror = Mirror(name=name, capabilities=capabilities, timing=timing, draws=draws)
        self.faults = Faults(mirror=self.mirror, clock=clock, restores=capabilities.latching)
        self.clock = clock
        self._server = TwinServer(
            mirror=self.mirror,
            clock=clock,
            dialer=dialer,
            address=address,
            make_session=self.session,
            faults=self.faults,
        )
        self._addresses: dict[str, str] = {}

    @abstractmethod
    def session(self, server: TwinServer) -> TwinSession:
        """A new session of a client."""

    @property
    def addresses(self) -> Mapping[str, str]:
        return self._addresses

    async def start(self) -> str:
        self._addresses[self.protocol] = await self._server.start()
        return self._addresses[self.protocol]

    async def close(self) -> None:
        await self._server.close()
        self._addresses.clear()


class SequentialTwin(OneServerTwin[OptionsT], Generic[CommandT, OptionsT]):
    """A twin that does one command at a time, as small controllers do. Subclasses decode and answer commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.faults.on_reboot.append(self.powered_up)

    @override
    def session(self, server: TwinServer) -> TwinSession:
        return _Session(server, self)

    @abstractmethod
    def decoder(self) -> Callable[[bytes], Sequence[CommandT]]:
        """A new decoder for each session. Its ProtocolError ends the session."""

    @abstractmethod
    def answer(self, command: CommandT) -> tuple[bytes, float]:
        """Execute it.

        Returns the answer, maybe empty, and the time until it is sent and the next command is accepted.
        """

    @abstractmethod
    def another(self, command: CommandT) -> bytes:
        """A well-formed answer to another command, for that fault; nothing moves."""

    def powered_up(self) -> None:
        """Called after a reboot; a subclass resets the state that its unit loses without power, except the light."""

    @property
    def states(self) -> list[int]:
        """The number of each element's state."""
        return list(self.mirror.states.values())

    @property
    def moving(self) -> bool:
        readings = self.mirror.readings(self.clock.monotonic_ns())
        return any(reading.state is CrossconnectState.TUNING for reading in readings)

    def move(self, targets: Mapping[int, int]) -> tuple[Settling, Denial | None]:
        """Move elements, by index, to these states, as far as the faults allow."""
        changes, denial = self.faults.take_change(list(targets.items()))
        elements = self.capabilities.elements
        states = {elements[place].name: state for place, state in changes}
        return self.mirror.set_states(states, self.clock.monotonic_ns()), denial


class _Session(TwinSession, Generic[CommandT, OptionsT]):
    """One client. Commands that come during another wait for it."""

    def __init__(self, server: TwinServer, twin: SequentialTwin[CommandT, OptionsT]) -> None:
        super().__init__(server)
        self._twin = twin
        self._decode = twin.decoder()
        self._waiting: deque[CommandT] = deque()
        self._busy = False
        self._last_answer_s = -math.inf

    @override
    def data_received(self, data: bytes) -> None:
        try:
            self._waiting.extend(self._decode(data))
            if len(self._waiting) > WAITING_MAX:
                raise ProtocolError(f"{len(self._waiting)} commands wait, limit {WAITING_MAX}")
        except ProtocolError as error:
            log.warning("twin %s: %s; ending the session", self._twin.name, error)
            self.abort()
            return
        self._work()

    def _work(self) -> None:
        while self._waiting and not self._busy:
            command = self._waiting.popleft()
            answer, delay_s = self._twin.answer(command)
            if answer and self.server.faults.take_wrong():
                answer, delay_s = self._twin.another(command), 0.0
            if delay_s > 0:
                self._busy = True
                self.later(delay_s, self._ready, answer)
            elif answer:
                self._send_answer(answer)

    def _ready(self, answer: bytes) -> None:
        self._busy = False
        if answer:
            self._send_answer(answer)
        self._work()

    def _send_answer(self, answer: bytes) -> None:
        """Send an answer, never before an earlier one that is slow."""
        now_s = asyncio.get_running_loop().time()
        spoiled = self.server.faults.spoil(answer)
        if spoiled is None:
            return
        due_s = max(now_s + self.server.faults.slow_s, self._last_answer_s + APART_S)
        if due_s > now_s:
            self._last_answer_s = due_s
            self.send(spoiled, delay_s=due_s - now_s)
        else:
            self.send(spoiled)
