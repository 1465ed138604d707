"""The wire between a twin host and its agent: what a kernel and its NICs would have shown, as length-prefixed JSON.

Each frame is a 32-bit big-endian length and one JSON object. The agent says Hello; the twin answers Welcome, every link and every PHY, and SnapshotEnd;
from then on it tells changes by itself, and both ask and answer in any order. `stamp_ns` is the twin's machine's CLOCK_REALTIME at the change, just as a
kernel receive stamp is: the agent turns it into its host's time with its own clock, so that one clock moves every stamp of a twin host.

A twin host serves it so:

    listener = await dialer.listen(lambda: HostWireServer(host, clock), "unix:/run/h0.sock")     # host: TwinHost
    wire.tell_link(state)                                                                       # to each wire that `attached` gave
"""

import asyncio
import logging
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec
from typing_extensions import override

from hwd_agents.sources.link import OperState
from hwd_agents.sources.settings import Setting, parse_setting
from hwd_agents.wire import SourceNote
from hwd_drivers.kit.clock import Clock
from hwd_drivers.kit.documents import Json
from hwd_drivers.kit.errors import HwdError, ProtocolError, RefusedError

VERSION: Final = 1
FRAME_LIMIT_BYTES: Final = 1 << 20
"""The longest frame; the longest real one, a datagram of 64 KiB in base64, is below 100 KiB."""
FIRST_FREE_PORT: Final = 49152
"""Where UDP ports that nobody asked for by number begin (RFC 6335)."""

_LENGTH: Final = struct.Struct(">I")
_log = logging.getLogger(__name__)


class LinkState(msgspec.Struct, frozen=True, kw_only=True):
    """One network interface of a twin host as it is now."""

    interface: str
    ifindex: int
    admin_up: bool
    carrier: bool
    operstate: OperState
    carrier_changes: int
    carrier_ups: int
    carrier_downs: int
    mtu: int = 1500
    address: str = ""


class _Frame(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    pass


class Hello(_Frame, frozen=True, kw_only=True, tag="hello"):
    """First frame of the agent; `host` is whom it takes the twin for."""

    version: int = VERSION
    host: str


class Refresh(_Frame, frozen=True, kw_only=True, tag="refresh"):
    """Tell all links and PHYs again; answered by them and SnapshotEnd."""

    id: int


class ReadModule(_Frame, frozen=True, kw_only=True, tag="read-module"):
    """Answered by Module or Refused. Latched flags of the module are cleared by it."""

    id: int
    interface: str


class ReadFile(_Frame, frozen=True, kw_only=True, tag="read-file"):
    """Answered by File or Refused; `path` is relative to /sys."""

    id: int
    path: str


class ReadSetting(_Frame, frozen=True, kw_only=True, tag="read-setting"):
    """The state of what `value` is about (`hwd_agents.sources.settings`); answered by SettingRead or Refused."""

    id: int
    interface: str
    setting: str
    value: Any


class ChangeSetting(_Frame, frozen=True, kw_only=True, tag="change-setting"):
    """Bring what `value` is about into `state`; answered by SettingRead or Refused."""

    id: int
    interface: str
    setting: str
    value: Any
    state: Any


class OpenPort(_Frame, frozen=True, kw_only=True, tag="open-port"):
    """Answered by Opened; `port` 0 takes a free one."""

    id: int
    interface: str
    ip: str
    port: int


class ClosePort(_Frame, frozen=True, kw_only=True, tag="close-port"):
    interface: str
    port: int


class Datagram(_Frame, frozen=True, kw_only=True, tag="datagram"):
    """A datagram, either way; `interface` is the twin host's own, `stamp_ns` of an incoming one its receipt."""

    interface: str
    source: tuple[str, int]
    target: tuple[str, int]
    payload: bytes
    stamp_ns: int = 0


class Welcome(_Frame, frozen=True, kw_only=True, tag="welcome"):
    """First frame of the twin. `life` changes when its counters start anew; `notes` say what its sources see: link, datagrams, module, file, phy."""

    version: int = VERSION
    host: str
    life: str
    notes: dict[str, SourceNote]
    clock_step_s: float = 0.0
    """How far its clock was stepped so far, all steps together."""


class ClockStepped(_Frame, frozen=True, kw_only=True, tag="clock-stepped"):
    """The host's clock was stepped; `clock_step_s` is all steps together."""

    clock_step_s: float


class LinkTold(_Frame, frozen=True, kw_only=True, tag="link"):
    """A link; `snapshot`: asked for, so that it may be old; else it changed at `stamp_ns`. `present` false: it was removed."""

    link: LinkState
    present: bool
    snapshot: bool
    stamp_ns: int


class PhyTold(_Frame, frozen=True, kw_only=True, tag="phy"):
    """The NIC's own PHY came up or went down, or (`snapshot`) is as it is."""

    interface: str
    up: bool
    snapshot: bool
    stamp_ns: int


class SnapshotEnd(_Frame, frozen=True, kw_only=True, tag="snapshot-end"):
    """All was told; `id` of the Refresh, 0 after Hello."""

    id: int


class Module(_Frame, frozen=True, kw_only=True, tag="module"):
    id: int
    memory: bytes


class File(_Frame, frozen=True, kw_only=True, tag="file"):
    """`text` None: there is no such file."""

    id: int
    text: str | None


class Opened(_Frame, frozen=True, kw_only=True, tag="opened"):
    id: int
    port: int


class SettingRead(_Frame, frozen=True, kw_only=True, tag="setting-read"):
    """The state now."""

    id: int
    state: Any


class Refused(_Frame, frozen=True, kw_only=True, tag="refused"):
    """The question `id` cannot be answered; 0: the Hello. `forbidden`: it will not be, however often it is asked."""

    id: int
    why: str
    forbidden: bool = False


FromAgent = Hello | Refresh | ReadModule | ReadFile | ReadSetting | ChangeSetting | OpenPort | ClosePort | Datagram
FromTwin = (
    Welcome
    | ClockStepped
    | LinkTold
    | PhyTold
    | SnapshotEnd
    | Module
    | File
    | SettingRead
    | Opened
    | Refused
    | Datagram
)
Answer = Module | File | SettingRead | Opened | Refused | SnapshotEnd

FrameT = TypeVar("FrameT")

_encoder = msgspec.json.Encoder()
_from_agent: msgspec.json.Decoder[FromAgent] = msgspec.json.Decoder(FromAgent)
_from_twin: msgspec.json.Decoder[FromTwin] = msgspec.json.Decoder(FromTwin)


def encode_frame(frame: FromAgent | FromTwin) -> bytes:
    """The bytes of one frame, its length before it."""
    payload = _encoder.encode(frame)
    return _LENGTH.pack(len(payload)) + payload


def decode_from_agent(payload: bytes) -> FromAgent:
    """Raises ProtocolError on anything else."""
    return _decode(_from_agent, payload)


def decode_from_twin(payload: bytes) -> FromTwin:
    """Raises ProtocolError on anything else."""
    return _decode(_from_twin, payload)


class Unframer:
    """Cuts a stream of bytes into the payloads of frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads that are whole now. Raises ProtocolError at a length over the limit; the stream is lost then."""
        self._buffer += data
        payloads: list[bytes] = []
        at = 0
        while len(self._buffer) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, at)
            if length > FRAME_LIMIT_BYTES:
                raise ProtocolError(
                    f"host wire: a frame of {length} bytes is over the limit of {FRAME_LIMIT_BYTES} bytes"
                )
            start = at + _LENGTH.size
            if len(self._buffer) - start < length:
                break
            payloads.append(bytes(self._buffer[start : start + length]))
            at = start + length
        del self._buffer[:at]
        return payloads


class TwinHost(Protocol):
    """What a twin host shows on its wire. All calls come from the event loop and must not wait."""

    name: str
    life: str
    """Another one whenever the counters of its links start anew."""
    clock_step_s: float
    """How far its clock was stepped so far."""
    notes: Mapping[str, SourceNote]
    """What its sources see, by name: link, datagrams, module, file, phy. One that is missing is not there."""

    def links(self) -> Sequence[LinkState]:
        """Every interface that is there."""
        ...

    def phys(self) -> Mapping[str, bool]:
        """Whether the PHY of each interface is up."""
        ...

    def module(self, interface: str) -> bytes:
        """256 bytes of SFF-8636, latched flags cleared by the call. Raises HwdError where there is no module."""
        ...

    def file(self, path: str) -> str | None:
        """The text of a file under /sys, None where there is none."""
        ...

    def read_setting(self, interface: str, setting: Setting, value: Json) -> Json:
        """The state of what `value` is about. Raises RefusedError where this host does not have it."""
        ...

    def change_setting(self, interface: str, setting: Setting, value: Json, state: Json) -> None:
        """Bring what `value` is about into `state`. Raises RefusedError where this host cannot."""
        ...

    def on_datagram(self, interface: str, source: tuple[str, int], target: tuple[str, int], payload: bytes) -> None:
        """The agent sends; it goes where the light of `interface` goes, or nowhere."""
        ...

    def attached(self, wire: "HostWireServer") -> None:
        """An agent is there and has the snapshot: tell changes to `wire` from now on."""
        ...

    def detached(self, wire: "HostWireServer") -> None:
        """It is gone; called once for each that was attached."""
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
            _log.warning("%s: hung up on the agent: %s", self._host.name, error)
            self.close()

    def tell_link(self, link: LinkState, *, present: bool = True, stamp_ns: int | None = None) -> None:
        """`link` changed, or was removed, at `stamp_ns` (CLOCK_REALTIME; now, where it is left out)."""
        self._send(LinkTold(link=link, present=present, snapshot=False, stamp_ns=self._stamp(stamp_ns)))

    def tell_phy(self, interface: str, up: bool, *, stamp_ns: int | None = None) -> None:
        """The PHY of `interface` came up or went down."""
        self._send(PhyTold(interface=interface, up=up, snapshot=False, stamp_ns=self._stamp(stamp_ns)))

    def tell_clock_step(self, clock_step_s: float) -> None:
        """The host's clock is off by so much from now on, all steps together."""
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
        """A datagram came to `interface`. False: the agent has no such port open, and nothing was sent."""
        if (interface, target[1]) not in self._ports:
            return False
        self._send(
            Datagram(interface=interface, source=source, target=target, payload=payload, stamp_ns=self._stamp(stamp_ns))
        )
        return True

    def close(self) -> None:
        """Hang up, after what is written."""
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
            why = f"this is host {self._host.name}, wire version {VERSION}; asked for was {hello.host}, version {hello.version}"
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
            self._send(LinkTold(link=link, present=True, snapshot=True, stamp_ns=stamp_ns))
        for interface, up in self._host.phys().items():
            self._send(PhyTold(interface=interface, up=up, snapshot=True, stamp_ns=stamp_ns))
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


def _decode(decoder: "msgspec.json.Decoder[FrameT]", payload: bytes) -> FrameT:
    try:
        return decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProtocolError(f"host wire: not a frame of version {VERSION}: {error}") from error
