"""The datagrams of the readiness probe: JSON, one message each."""

from typing import Final

import msgspec

from hwd_drivers.kit.errors import ProtocolError

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


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Request | Reply] = msgspec.json.Decoder(Request | Reply)


def encode(message: Request | Reply) -> bytes:
    return _encoder.encode(message)


def decode(payload: bytes) -> Request | Reply:
    """Raises ProtocolError on anything else."""
    try:
        return _decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProtocolError(f"probe: not a message of version {VERSION}: {error}") from error
