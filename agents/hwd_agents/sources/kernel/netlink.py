"""Netlink framing: messages and attributes to bytes and back, no socket in sight (linux/netlink.h, rtnetlink.h)."""

import os
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from hwd_drivers.core.errors import ProtocolError

HEADER: Final = struct.Struct("=IHHII")  # length, type, flags, sequence, port
ATTRIBUTE: Final = struct.Struct("=HH")  # length, type
INTERFACE: Final = struct.Struct("=BxHiII")  # struct ifinfomsg: family, type, index, flags, change
LINK: Final = struct.Struct(HEADER.format + INTERFACE.format[1:])  # both, as a message of a link begins
LINK_STATE: Final = struct.Struct("=4xH14xiI")  # of that the type, the index and the flags


NLMSG_ERROR: Final = 2
NLMSG_DONE: Final = 3

NLM_F_REQUEST: Final = 0x1
NLM_F_DUMP_INTR: Final = 0x10
NLM_F_DUMP: Final = 0x300
NLM_F_CAPPED: Final = 0x100  # in an NLMSG_ERROR: the refused message itself is cut off
NLM_F_ACK_TLVS: Final = 0x200  # in an NLMSG_ERROR: attributes follow

NLMSGERR_ATTR_MSG: Final = 1

RTM_NEWLINK: Final = 16
RTM_DELLINK: Final = 17
RTM_GETLINK: Final = 18
RTMGRP_LINK: Final = 1

IFF_UP: Final = 0x1
IFF_LOWER_UP: Final = 0x10000

IFLA_ADDRESS: Final = 1
IFLA_IFNAME: Final = 3
IFLA_MTU: Final = 4
IFLA_LINK: Final = 5
IFLA_OPERSTATE: Final = 16
IFLA_EXT_MASK: Final = 29
IFLA_CARRIER_CHANGES: Final = 35
IFLA_CARRIER_UP_COUNT: Final = 47
IFLA_CARRIER_DOWN_COUNT: Final = 48
RTEXT_FILTER_SKIP_STATS: Final = 1 << 3

TYPE_MASK: Final = 0x3FFF  # the two upper bits say nested and big-endian


class Message(NamedTuple):
    """One netlink message, as cheap as one can be: the path from a notice to its event is short. `payload` is what stands after the header."""

    type: int
    flags: int
    sequence: int
    payload: bytes


def messages(data: bytes) -> Iterator[Message]:
    """The messages of one datagram. Raises ProtocolError at a length that does not fit."""
    offset = 0
    while offset + HEADER.size <= len(data):
        length, kind, flags, sequence, _port = HEADER.unpack_from(data, offset)
        if length < HEADER.size or offset + length > len(data):
            raise ProtocolError(f"netlink: message of {length} bytes at {offset} in a datagram of {len(data)} bytes")
        yield Message(kind, flags, sequence, data[offset + HEADER.size : offset + length])
        offset += _aligned(length)


def attributes(data: bytes, offset: int = 0, *, is_cut: bool = False) -> dict[int, bytes]:
    """The attributes in `data` from `offset`, by type; a type that stands twice keeps the last. `is_cut`: `data` may end within one, which is left out."""
    found: dict[int, bytes] = {}
    while offset + ATTRIBUTE.size <= len(data):
        length, kind = ATTRIBUTE.unpack_from(data, offset)
        if is_cut and offset + length > len(data):
            break
        if length < ATTRIBUTE.size or offset + length > len(data):
            raise ProtocolError(f"netlink: attribute {kind} of {length} bytes at {offset} in {len(data)} bytes")
        found[kind & TYPE_MASK] = data[offset + ATTRIBUTE.size : offset + length]
        offset += _aligned(length)
    return found


def encode_message(kind: int, flags: int, sequence: int, payload: bytes) -> bytes:
    """A whole message, padded, so that messages may follow each other in one datagram."""
    length = HEADER.size + len(payload)
    return HEADER.pack(length, kind, flags, sequence, 0) + payload + bytes(_aligned(length) - length)


def encode_attribute(kind: int, value: bytes) -> bytes:
    """One attribute, padded."""
    length = ATTRIBUTE.size + len(value)
    return ATTRIBUTE.pack(length, kind) + value + bytes(_aligned(length) - length)


def encode_text(kind: int, text: str) -> bytes:
    """An attribute that holds a zero-terminated string."""
    return encode_attribute(kind, text.encode() + b"\0")


def encode_u32(kind: int, value: int) -> bytes:
    """An attribute that holds a 32-bit number."""
    return encode_attribute(kind, struct.pack("=I", value))


def decode_error(payload: bytes, flags: int) -> tuple[int, str]:
    """(errno, the kernel's words) of an NLMSG_ERROR; errno 0 is an acknowledgement."""
    (negative,) = struct.unpack_from("=i", payload)
    number = -negative
    words = os.strerror(number) if number else ""
    if number and flags & NLM_F_ACK_TLVS:
        offset = 4 + HEADER.size
        if not flags & NLM_F_CAPPED:
            (refused,) = struct.unpack_from("=I", payload, 4)
            offset = 4 + _aligned(refused)
        text = attributes(payload, offset).get(NLMSGERR_ATTR_MSG)
        if text:
            words = f"{words}: {text.rstrip(bytes(1)).decode(errors='replace')}"
    return number, words


def _aligned(length: int) -> int:
    return (length + 3) & ~3
