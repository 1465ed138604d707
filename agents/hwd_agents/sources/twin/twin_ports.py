"""UDP ports of a twin host, over its wire."""

import errno
from collections.abc import Callable
from typing import Protocol, TypeVar

from hwd_agents.sources.kernel.udp import OnDatagram
from hwd_agents.sources.twin import hostwire
from hwd_agents.wire import SourceNote
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import HwdError

AnswerT = TypeVar("AnswerT", bound=hostwire.Answer)


class Twin(Protocol):
    """The connection to a twin host."""

    @property
    def why_not(self) -> str:
        """Why the twin cannot be reached; empty when it can."""
        ...

    async def ask(self, make: Callable[[int], hostwire.FromAgent], expected: type[AnswerT]) -> AnswerT:
        """Ask the twin. Raises LinkError when it is away or refuses."""
        ...

    def tell(self, frame: hostwire.FromAgent) -> bool:
        """Send to the twin; False when it is away."""
        ...


class TwinDatagrams:
    """DatagramSource; open ports are opened again when the rack is back."""

    note: SourceNote

    def __init__(self, twin: Twin, clock: Clock) -> None:
        self._twin = twin
        self._clock = clock
        self._ports: dict[tuple[str, int], TwinPort] = {}

    async def open(self, interface: str, ip: str, port: int, on_datagram: OnDatagram) -> "TwinPort":
        """A port on `interface`. Raises OSError while the rack is away."""
        try:
            number = await self._ask(interface, ip, port)
        except HwdError as error:
            raise OSError(errno.ENODEV, str(error)) from error
        opened = TwinPort(self._twin, self, interface, ip, number, on_datagram)
        self._ports[interface, number] = opened
        return opened

    async def open_again(self) -> None:
        """Open all ports again after a reconnect: the twin does not know them."""
        for interface, number in list(self._ports):
            await self._ask(interface, self._ports[interface, number].ip, number)

    def take(self, frame: hostwire.Datagram) -> None:
        port = self._ports.get((frame.interface, frame.target[1]))
        if port is not None:
            port.on_datagram(frame.payload, frame.source, self._clock.from_kernel_ns(frame.stamp_ns))

    def forget(self, port: "TwinPort") -> None:
        self._ports.pop((port.interface, port.port), None)

    async def _ask(self, interface: str, ip: str, port: int) -> int:
        answer = await self._twin.ask(
            lambda number: hostwire.OpenPort(id=number, interface=interface, ip=ip, port=port), hostwire.Opened
        )
        return answer.port


class TwinPort:
    """One UDP port of a twin host."""

    def __init__(
        self, twin: Twin, owner: TwinDatagrams, interface: str, ip: str, port: int, on_datagram: OnDatagram
    ) -> None:
        self._twin = twin
        self._owner = owner
        self._port = port
        self._last_failure = ""
        self._closed = False
        self.interface = interface
        self.ip = ip
        self.on_datagram = on_datagram

    @property
    def port(self) -> int:
        return self._port

    @property
    def last_failure(self) -> str:
        return self._last_failure

    def send(self, payload: bytes, address: tuple[str, int]) -> bool:
        frame = hostwire.Datagram(
            interface=self.interface, source=(self.ip, self._port), target=address, payload=payload
        )
        return self._done(not self._closed and self._twin.tell(frame))

    def reopen(self) -> bool:
        """Nothing to do: a twin's ports follow its interfaces."""
        return self._done(not self._closed and not self._twin.why_not)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._owner.forget(self)
            self._twin.tell(hostwire.ClosePort(interface=self.interface, port=self._port))

    def _done(self, done: bool) -> bool:
        if not done:
            self._last_failure = f"{self.interface}: " + (self._twin.why_not or "the port is closed")
        return done
