"""The datagrams of the readiness probe: JSON, one message each."""

from typing import Final

import msgspec

from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.reason import reason_of

VERSION: Final = 1


class Request(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="request"):
    """Are you who I take you for? `port` is the asker's, `rdma` whether its RDMA port is active (None: it cannot see)."""

    v: int = VERSION
    reconfiguration: str
    nonce: int
    port: str
    rdma: bool | None


class Reply(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="reply"):
    """I am `port`, and take you for `peer`."""

    v: int = VERSION
    reconfiguration: str
    nonce: int
    port: str
    peer: str
    rdma: bool | None


class Offer(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="offer"):
    """`port` has an RC queue pair for `peer`: its number `qpn`, and `joined`, the number of the peer's that it is joined to, or 0."""

    v: int = VERSION
    reconfiguration: str
    port: str
    peer: str
    qpn: int
    joined: int


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Request | Reply | Offer] = msgspec.json.Decoder(Request | Reply | Offer)


def encode(message: Request | Reply | Offer) -> bytes:
    return _encoder.encode(message)


def decode(payload: bytes) -> Request | Reply | Offer:
    """Raises ProtocolError on anything else."""
    try:
        return _decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:  # the last: objects in objects
        raise ProtocolError(f"probe: not a message of version {VERSION}: {reason_of(error)}") from error
