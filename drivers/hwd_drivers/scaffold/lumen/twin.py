"""The twin: the same lines on the mirror model."""

import logging
from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import override

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError, ProtocolError, RefusedError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Capabilities, Crossconnect, PortSide, Side
from hwd_drivers.transports.dial import Dialer
from hwd_drivers.twins.faults import Denial, Faults
from hwd_drivers.twins.mirror import Mirror
from hwd_drivers.twins.registry import TwinSpec, options_of
from hwd_drivers.twins.server import TwinServer, TwinSession
from hwd_drivers.twins.timing import SwitchTiming

from . import protocol

log = logging.getLogger(__name__)

BAD_COMMAND: Final = "1"
BAD_PORT: Final = "2"
IN_USE: Final = "3"


class TwinOptions(BaseModel):
    """Behaviour of the twin where no manual documents real units."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    firmware: str = Field(default="1.0", description="what ID says of it")


class LumenTwin:
    """A twin of one unit; `mirror` is its optics, `faults` its faults."""

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
        self.options = options_of(TwinOptions, name, options)
        self.name = name
        self.mirror = Mirror(name=name, capabilities=capabilities, timing=timing, draws=draws)
        self.outputs = sum(end.side is Side.B for end in capabilities.ends)
        self.inputs = len(capabilities.ends) - self.outputs
        self._server = TwinServer(
            mirror=self.mirror,
            clock=clock,
            dialer=dialer,
            address=address,
            make_session=lambda server: _Session(self, server),
        )
        self.faults: Faults = self._server.faults
        self._addresses: Mapping[str, str] = {}

    @property
    def addresses(self) -> Mapping[str, str]:
        return self._addresses

    async def start(self) -> str:
        listening = await self._server.start()
        self._addresses = {"lines": listening}
        return listening

    async def close(self) -> None:
        await self._server.close()


class _Session(TwinSession):
    """One client. Commands are executed as they come; answers leave in order, each after its own delay."""

    def __init__(self, twin: LumenTwin, server: TwinServer) -> None:
        super().__init__(server)
        self._twin = twin
        self._lines = protocol.LineDecoder()

    @override
    def data_received(self, data: bytes) -> None:
        try:
            lines = self._lines.feed(data)
        except ProtocolError as error:
            log.warning("twin %s: %s; ending the session", self._twin.name, error)
            self.abort()
            return
        for line in filter(None, lines):
            answer, delay_s = self._do("ID" if self.server.faults.take_wrong() else line)
            self.reply(protocol.encode_answer(answer), delay_s=delay_s)

    def _do(self, line: str) -> tuple[protocol.Answer, float]:
        """The answer and the time until it is sent."""
        try:
            request = protocol.parse_request(line)
        except ProtocolError as error:
            return protocol.Refusal(code=BAD_COMMAND, text=str(error)), 0.0
        match request:
            case protocol.AskIdentity():
                firmware = self._twin.options.firmware
                return protocol.Identity(vendor="Lumen", model="LS-TWIN", serial="0001", firmware=firmware), 0.0
            case protocol.AskSize():
                return protocol.Size(inputs=self._twin.inputs, outputs=self._twin.outputs), 0.0
            case protocol.AskMap():
                pairs = self._twin.mirror.crossconnects()
                return protocol.Map(pairs=tuple((int(pair.a.port), int(pair.b.port)) for pair in pairs)), 0.0
            case protocol.Change(remove=remove, add=add):
                return self._change(remove, add)

    def _change(
        self, remove: tuple[tuple[int, int], ...], add: tuple[tuple[int, int], ...]
    ) -> tuple[protocol.Answer, float]:
        faults, mirror, now_ns = self.server.faults, self._twin.mirror, self.server.clock.monotonic_ns()
        try:
            gone, made = [list(map(_crossconnect, pairs)) for pairs in (remove, add)]
            free = {end for pair in gone for end in pair.ends}
            for end in (end for pair in made for end in pair.ends):
                if end not in free and mirror.crossconnect_at(end) not in (None, *made):
                    return protocol.Refusal(code=IN_USE, text=f"{end} is in use"), 0.0
            changes, denial = faults.take_change([*gone, *made])
            mirror.disconnect([pair for pair in gone if pair in changes], now_ns)
            settling = mirror.connect([pair for pair in made if pair in changes], now_ns, move=True)
        except (ConfigError, RefusedError) as error:
            return protocol.Refusal(code=BAD_PORT, text=str(error)), 0.0
        if denial is not None:
            return protocol.Refusal(code=denial.code, text=denial.text), 0.0
        return protocol.Done(), settling.answer_s


def _crossconnect(pair: tuple[int, int]) -> Crossconnect:
    return Crossconnect.of(PortSide(port=str(pair[0]), side=Side.A), PortSide(port=str(pair[1]), side=Side.B))


TWIN: Final = TwinSpec(make=LumenTwin, options=TwinOptions, denial=Denial(code="3", text="told to say no"))
