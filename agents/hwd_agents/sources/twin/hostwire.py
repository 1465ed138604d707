"""The wire between a twin host and its agent: the reports of a simulated kernel and its NICs, as length-prefixed JSON.

Each frame is a 32-bit big-endian length and one JSON object. The agent sends Hello. The twin answers Welcome, every
link and every PHY, and SnapshotEnd; from then on it reports changes, and both ask and answer in any order. `stamp_ns`
is CLOCK_REALTIME of the twin's machine at the change, as in a kernel receive stamp. The agent converts it to its host's
time with its own clock, so that one clock moves every stamp of a twin host. An agent on another machine cannot use
these stamps. It relies on the order instead: answers and reports arrive in the order in which they were sent.
"""

import struct
from typing import Any, Final, TypeVar

import msgspec

from hwd_agents.sources.link_source import LinkState
from hwd_agents.wire import SourceNote
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import decoder, encoder

VERSION: Final = 1
FRAME_LIMIT_BYTES: Final = 1 << 20
"""The longest frame; the longest real one, a datagram of 64 KiB in base64, is below 100 KiB."""

_LENGTH: Final = struct.Struct(">I")


class _Frame(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    pass


class Hello(_Frame, frozen=True, kw_only=True, tag="hello"):
    """First frame of the agent; `host` is the twin host that it expects."""

    version: int = VERSION
    host: str


class Refresh(_Frame, frozen=True, kw_only=True, tag="refresh"):
    """Request for all links and PHYs; answered by them and SnapshotEnd."""

    id: int


class ReadModule(_Frame, frozen=True, kw_only=True, tag="read-module"):
    """Answered by Module or Refused. It clears the latched flags of the module."""

    id: int
    interface: str


class ReadFile(_Frame, frozen=True, kw_only=True, tag="read-file"):
    """Answered by File or Refused; `path` is relative to /sys."""

    id: int
    path: str


class ReadSetting(_Frame, frozen=True, kw_only=True, tag="read-setting"):
    """Request for the state of the subject of `value` (`hwd_agents.sources.setting_source`).

    Answered by SettingRead or Refused.
    """

    id: int
    interface: str
    setting: str
    value: Any


class ChangeSetting(_Frame, frozen=True, kw_only=True, tag="change-setting"):
    """Request to bring the subject of `value` into `state`; answered by SettingRead or Refused."""

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
    """A datagram, in either direction; `interface` is the twin host's, `stamp_ns` the receipt of an incoming one."""

    interface: str
    source: tuple[str, int]
    target: tuple[str, int]
    payload: bytes
    stamp_ns: int = 0


class Welcome(_Frame, frozen=True, kw_only=True, tag="welcome"):
    """First frame of the twin. `life` changes when its counters restart.

    `notes` describe its sources by name: link, datagrams, module, file, phy.
    """

    version: int = VERSION
    host: str
    life: str
    notes: dict[str, SourceNote]
    clock_step_s: float = 0.0
    """The sum of all steps of its clock so far."""


class ClockStepped(_Frame, frozen=True, kw_only=True, tag="clock-stepped"):
    """The host's clock was stepped; `clock_step_s` is the sum of all steps."""

    clock_step_s: float


class LinkReport(_Frame, frozen=True, kw_only=True, tag="link"):
    """The state of a link. `snapshot`: it was asked for and may be old; else it changed at `stamp_ns`.

    `present` false: the interface was removed.
    """

    link: LinkState
    present: bool
    snapshot: bool
    stamp_ns: int


class PhyReport(_Frame, frozen=True, kw_only=True, tag="phy"):
    """The NIC's own PHY came up or went down; with `snapshot` it is the present state.

    `age_ns`: the time from the change to this report, for an agent on another machine.
    """

    interface: str
    up: bool
    snapshot: bool
    stamp_ns: int
    age_ns: int = 0


class SnapshotEnd(_Frame, frozen=True, kw_only=True, tag="snapshot-end"):
    """The end of a snapshot; `id` of the Refresh, 0 after Hello."""

    id: int


class Module(_Frame, frozen=True, kw_only=True, tag="module"):
    id: int
    memory: bytes


class File(_Frame, frozen=True, kw_only=True, tag="file"):
    """A file of the host; `text` None: it does not exist."""

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
    """Question `id` cannot be answered; 0: the Hello. `forbidden`: asking again will not help."""

    id: int
    why: str
    forbidden: bool = False


FromAgent = Hello | Refresh | ReadModule | ReadFile | ReadSetting | ChangeSetting | OpenPort | ClosePort | Datagram
FromTwin = (
    Welcome
    | ClockStepped
    | LinkReport
    | PhyReport
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

_encoder = encoder()
_from_agent: msgspec.json.Decoder[FromAgent] = decoder(FromAgent)
_from_twin: msgspec.json.Decoder[FromTwin] = decoder(FromTwin)


def encode_frame(frame: FromAgent | FromTwin) -> bytes:
    """The bytes of one frame, with its length in front."""
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
        """The payloads that are complete now. Raises ProtocolError for a length over the limit; the stream is lost."""
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


def _decode(decoder: "msgspec.json.Decoder[FrameT]", payload: bytes) -> FrameT:
    try:
        return decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:  # the last: objects in objects
        raise ProtocolError(f"host wire: not a frame of version {VERSION}: {reason_of(error)}") from error
