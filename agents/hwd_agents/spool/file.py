"""What stands in the spool's file: frames, and how they are read again after a crash or from a damaged disk."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from hwd_agents.wire import EVENTS_MAX, Event
from hwd_drivers.core.disk import decode_frames, encode_frame

START: Final = b'{"type":"'
"""Each payload begins so, as msgspec writes the tag first: where frames go on behind damage can be found."""


class BatchFrame(msgspec.Struct, frozen=True, kw_only=True, tag="events"):
    """Events of one boot, ascending without gaps, and the marks that became true with them."""

    boot: str
    events: list[msgspec.Raw]
    marks: dict[str, dict[str, Any]] = {}


class FreshFrame(msgspec.Struct, frozen=True, kw_only=True, tag="events"):
    """A BatchFrame as it is written when its events are new: encoded in one go, as this is on the way of each event."""

    boot: str
    events: list[Event]
    marks: dict[str, dict[str, Any]]


class AckedFrame(msgspec.Struct, frozen=True, kw_only=True, tag="acked"):
    """The daemon holds all of `boot` up to and with `upto`."""

    boot: str
    upto: int


class BootFrame(msgspec.Struct, frozen=True, kw_only=True, tag="boot"):
    """Before the first events of a boot: by which clock they are stamped."""

    boot: str
    clock: str


Frame = BatchFrame | AckedFrame | BootFrame

_encode: Final = msgspec.json.Encoder().encode
_decoder: Final[msgspec.json.Decoder[Frame]] = msgspec.json.Decoder(Frame)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a file held.

    `torn_bytes`: the beginning of a frame that was never finished, at the end: whoever wrote it died. `damaged_bytes`: all else that cannot be read.
    """

    frames: list[Frame] = field(default_factory=list)
    damaged_bytes: int = 0
    torn_bytes: int = 0


def encode(frame: Frame | FreshFrame) -> bytes:
    return encode_frame(_encode(frame))


def encode_batch(boot: str, raws: Sequence[bytes], marks: Mapping[str, dict[str, Any]]) -> bytes:
    """The BatchFrame of events that are encoded already."""
    return encode_frame(
        b'{"type":"events","boot":%s,"events":[%s],"marks":%s}' % (_encode(boot), b",".join(raws), _encode(marks))
    )


def encode_all(boot: str, raws: Sequence[bytes]) -> bytes:
    """As many frames as these events need."""
    return b"".join(
        encode_batch(boot, raws[start : start + EVENTS_MAX], {}) for start in range(0, len(raws), EVENTS_MAX)
    )


def read(data: bytes) -> Contents:
    """All that is readable; what stands behind damage is found by its beginning and its checksum."""
    found = decode_frames(data, resume=START)
    frames: list[Frame] = []
    damaged_bytes = found.damaged_bytes
    for payload in found.payloads:
        try:
            frames.append(_decoder.decode(payload))
        except msgspec.MsgspecError:  # a whole frame, of another version
            damaged_bytes += len(payload)
    return Contents(frames=frames, damaged_bytes=damaged_bytes, torn_bytes=len(data) - found.end_bytes)
