"""The frames of the spool's file, and how they are read after a crash or from a damaged disk."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from hwd_agents.wire import EVENTS_MAX
from hwd_drivers.core.frames import decode_frames, encode_frame
from hwd_drivers.core.structs import decoder, encoder

START: Final = b'{"type":"'
"""Each payload begins with this, because msgspec writes the tag first: so the frames behind damage can be found."""


class BatchFrame(msgspec.Struct, frozen=True, kw_only=True, tag="events"):
    """Events of one boot, ascending without gaps, and the marks that were set with them."""

    boot: str
    events: list[msgspec.Raw]
    marks: dict[str, dict[str, Any]] = {}


class AckedFrame(msgspec.Struct, frozen=True, kw_only=True, tag="acked"):
    """The daemon has all events of `boot` up to and including `upto`."""

    boot: str
    upto: int


class BootFrame(msgspec.Struct, frozen=True, kw_only=True, tag="boot"):
    """Precedes the first events of a boot: names the clock of their stamps."""

    boot: str
    clock: str


Frame = BatchFrame | AckedFrame | BootFrame

_encode: Final = encoder().encode
_decoder: Final[msgspec.json.Decoder[Frame]] = decoder(Frame)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The contents of a file.

    `torn_bytes`: an incomplete frame at the end, whose writer was killed. `damaged_bytes`: all other unreadable bytes.
    """

    frames: list[Frame] = field(default_factory=list)
    damaged_bytes: int = 0
    torn_bytes: int = 0


def encode(frame: Frame) -> bytes:
    return encode_frame(_encode(frame))


def encode_batch(boot: str, raws: Sequence[bytes], marks: Mapping[str, dict[str, Any]]) -> bytes:
    """The BatchFrame of encoded events."""
    return encode_frame(
        b'{"type":"events","boot":%s,"events":[%s],"marks":%s}' % (_encode(boot), b",".join(raws), _encode(marks))
    )


def encode_all(boot: str, raws: Sequence[bytes]) -> bytes:
    """Encode events in as many frames as they need."""
    return b"".join(
        encode_batch(boot, raws[start : start + EVENTS_MAX], {}) for start in range(0, len(raws), EVENTS_MAX)
    )


def read(data: bytes) -> Contents:
    """Read all that is readable; frames behind damage are found by their first bytes and their checksums."""
    found = decode_frames(data, resume=START)
    frames: list[Frame] = []
    damaged_bytes = found.damaged_bytes
    for payload in found.payloads:
        try:
            frames.append(_decoder.decode(payload))
        except msgspec.MsgspecError:  # a complete frame, of another version
            damaged_bytes += len(payload)
    return Contents(frames=frames, damaged_bytes=damaged_bytes, torn_bytes=len(data) - found.end_bytes)
