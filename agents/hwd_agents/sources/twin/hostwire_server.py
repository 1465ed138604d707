"""HostWireServer: the twin's end of the wire between a twin host and its agent (`hwd_agents.sources.twin.hostwire`).

listener = await dialer.listen(lambda: HostWireServer(host, clock), "unix:/run/h0.sock")     # host: TwinHost
wire.tell_link(state)                                          # for each wire that `attached` was called with
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from typing_extensions import override

from hwd_agents.sources.link_source import LinkState
from hwd_agents.sources.setting_source import Setting, parse_setting
from hwd_agents.sources.twin.hostwire import (
    VERSION,
    ChangeSetting,
    ClockStepped,
    ClosePort,
    Datagram,
    File,
    FromAgent,
    FromTwin,
    Hello,
    LinkReport,
    Module,
    Opened,
    OpenPort,
    PhyReport,
    ReadFile,
    ReadModule,
    ReadSetting,
    Refresh,
    Refused,
    SettingRead,
    SnapshotEnd,
    Unframer,
    Welcome,
    decode_from_agent,
    encode_frame,
)
from hwd_agents.wire import SourceNote
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import HwdError, ProtocolError, RefusedError

FIRST_FREE_PORT: Final = 49152
"""The first of the UDP ports that are chosen when the agent asks for port 0 (RFC 6335)."""

_log = logging.getLogger(__name__)


class TwinHost(Protocol):
    """The state of a twin host, for its wire. All calls come from the event loop and must not wait."""

    name: str
    life: str
    """Takes another value whenever the counters of its links restart."""
    clock_step_s: float
    """The sum of all steps of its clock so far."""
    notes: Mapping[str, SourceNote]
    """The notes of its sources by name: link, datagrams, module, file, phy. A source that is absent does not exist."""

    def links(self) -> Sequence[LinkState]:
        """Every interface that exists."""
        ...

    def phys(self) -> Mapping[str, bool]:
        """Whether the PHY of each interface is up."""
        ...

    def module(self, interface: str) -> bytes:
        """The memory of its module, as the parser of its standard takes it; the call clears latched flags.

        Raises HwdError when there is no module.
        """
        ...

    def file(self, path: str) -> str | None:
        """The text of a file under /sys, None when it does not exist."""
        ...

    def read_setting(self, interface: str, setting: Setting, value: Json) -> Json:
        """The state of the subject of `value`. Raises RefusedError when this host does not have it."""
        ...

    def change_setting(self, interface: str, setting: Setting, value: Json, state: Json) -> None:
        """Bring the subject of `value` into `state`. Raises RefusedError when this host cannot."""
        ...

    def on_datagram(self, interface: str, source: tuple[str, int], target: tuple[str, int], payload: bytes) -> None:
        """Take a datagram that the agent sends; deliver it where the light of `interface` goes, if anywhere."""
        ...

    def attached(self, wire: "HostWireServer") -> None:
        """An agent has connected and has the snapshot: report changes to `wire` from now on."""
        ...

    def detached(self, wire: "HostWireServer") -> None:
        """The agent has disconnected; called once for each call of `attached`."""
        ...


class HostWireServer(asyncio.Protocol):
    """The twin's end of one connection."""

    def __init__(self, host: TwinHost, clock: Clock) -> None:
        self._host = host
        self._clock = clock
        self._unframer = Unframer()
        self._transport: asyncio.Transport | None = None
        self._attached = False
        self._ports: set[tuple[str, int]] = set()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._attached:
            self._attached = False
            self._host.detached(self)

    @override
    def data_received(self, data: bytes) -> None:
        try:
            for payload in self._unframer.feed(data):
                self._take(decode_from_agent(payload))
        except ProtocolError as error:
            _log.warning("%s: disconnected the agent: %s", self._host.name, error)
            self.close()

    def tell_link(self, link: LinkState, *, present: bool = True, stamp_ns: int | None = None) -> None:
        """Report that `link` changed, or was removed, at `stamp_ns` (CLOCK_REALTIME; None: now)."""
        self._send(LinkReport(link=link, present=present, snapshot=False, stamp_ns=self._stamp(stamp_ns)))

    def tell_phy(self, interface: str, up: bool, *, stamp_ns: int | None = None) -> None:
        """Report that the PHY of `interface` came up or went down."""
        at_ns = self._stamp(stamp_ns)
        age_ns = max(0, self._clock.wall_ns() - at_ns)
        self._send(PhyReport(interface=interface, up=up, snapshot=False, stamp_ns=at_ns, age_ns=age_ns))

    def tell_clock_step(self, clock_step_s: float) -> None:
        """Report that the host's clock was stepped; `clock_step_s` is the sum of all steps."""
        self._send(ClockStepped(clock_step_s=clock_step_s))

    def tell_datagram(
        self,
        interface: str,
        source: tuple[str, int],
        target: tuple[str, int],
        payload: bytes,
        *,
        stamp_ns: int | None = None,
    ) -> bool:
        """Send a datagram that arrived at `interface`. False: the agent has no such port open, and nothing was sent."""
        if (interface, target[1]) not in self._ports:
            return False
        self._send(
            Datagram(interface=interface, source=source, target=target, payload=payload, stamp_ns=self._stamp(stamp_ns))
        )
        return True

    def close(self) -> None:
        """Disconnect after all pending bytes are sent."""
        if self._transport is not None:
            self._transport.close()

    def _take(self, frame: FromAgent) -> None:
        match frame:
            case Hello():
                self._welcome(frame)
            case _ if not self._attached:
                raise ProtocolError(f"{type(frame).__name__} before Hello")
            case Refresh(id=number):
                self._snapshot(number)
            case ReadModule(id=number, interface=interface):
                self._answer(number, lambda: Module(id=number, memory=self._host.module(interface)))
            case ReadFile(id=number, path=path):
                self._answer(number, lambda: File(id=number, text=self._host.file(path)))
            case ReadSetting(id=number, interface=interface, setting=name, value=value):
                self._answer(number, lambda: self._read_setting(number, interface, name, value))
            case ChangeSetting(id=number, interface=interface, setting=name, value=value, state=state):
                self._answer(number, lambda: self._change_setting(number, interface, name, value, state))
            case OpenPort(id=number, interface=interface, port=port):
                self._answer(number, lambda: Opened(id=number, port=self._open(interface, port)))
            case ClosePort(interface=interface, port=port):
                self._ports.discard((interface, port))
            case Datagram():
                self._host.on_datagram(frame.interface, frame.source, frame.target, frame.payload)

    def _welcome(self, hello: Hello) -> None:
        if self._attached:
            raise ProtocolError("a second Hello")
        if hello.version != VERSION or hello.host != self._host.name:
            why = (
                f"this is host {self._host.name}, wire version {VERSION}; "
                f"the agent asked for {hello.host}, version {hello.version}"
            )
            self._send(Refused(id=0, why=why))
            self.close()
            return
        self._send(
            Welcome(
                host=self._host.name,
                life=self._host.life,
                notes=dict(self._host.notes),
                clock_step_s=self._host.clock_step_s,
            )
        )
        self._snapshot(0)
        self._attached = True
        self._host.attached(self)

    def _snapshot(self, number: int) -> None:
        stamp_ns = self._clock.wall_ns()
        for link in self._host.links():
            self._send(LinkReport(link=link, present=True, snapshot=True, stamp_ns=stamp_ns))
        for interface, up in self._host.phys().items():
            self._send(PhyReport(interface=interface, up=up, snapshot=True, stamp_ns=stamp_ns))
        self._send(SnapshotEnd(id=number))

    def _answer(self, number: int, answer: Callable[[], FromTwin]) -> None:
        try:
            frame = answer()
        except HwdError as error:
            frame = Refused(id=number, why=str(error), forbidden=isinstance(error, RefusedError))
        self._send(frame)

    def _read_setting(self, number: int, interface: str, name: str, value: Json) -> SettingRead:
        return SettingRead(id=number, state=self._host.read_setting(interface, parse_setting(name), value))

    def _change_setting(self, number: int, interface: str, name: str, value: Json, state: Json) -> SettingRead:
        self._host.change_setting(interface, parse_setting(name), value, state)
        return self._read_setting(number, interface, name, value)

    def _open(self, interface: str, port: int) -> int:
        if port == 0:
            port = max((one + 1 for _, one in self._ports), default=FIRST_FREE_PORT)
        self._ports.add((interface, port))
        return port

    def _stamp(self, stamp_ns: int | None) -> int:
        return self._clock.wall_ns() if stamp_ns is None else stamp_ns

    def _send(self, frame: FromTwin) -> None:
        if self._transport is not None:
            self._transport.write(encode_frame(frame))
