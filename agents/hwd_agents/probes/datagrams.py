"""Request, Reply, Offer: the datagrams of the readiness probe: JSON, one message each."""

from typing import Final

import msgspec

from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import decoder, encoder

VERSION: Final = 1


class Request(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="request"):
    """Asks whether the receiver is the expected peer. `port` is the asker's.

    `rdma`: whether the asker's RDMA port is active; None: it cannot see that.
    """

    v: int = VERSION
    reconfiguration: str
    nonce: int
    port: str
    rdma: bool | None


class Reply(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="reply"):
    """The sender is `port`, and its expected peer is `peer`."""

    v: int = VERSION
    reconfiguration: str
    nonce: int
    port: str
    peer: str
    rdma: bool | None


class Offer(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="offer"):
    """An offer of an RC queue pair: `port` has one for `peer`, with the number `qpn`.

    `joined`: the number of the peer's queue pair that it is connected to, or 0.
    """

    v: int = VERSION
    reconfiguration: str
    port: str
    peer: str
    qpn: int
    joined: int


_encoder = encoder()
_decoder: msgspec.json.Decoder[Request | Reply | Offer] = decoder(Request | Reply | Offer)


def encode(message: Request | Reply | Offer) -> bytes:
    return _encoder.encode(message)


def decode(payload: bytes) -> Request | Reply | Offer:
    """Raises ProtocolError on anything else."""
    try:
        return _decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:  # the last: nested too deeply
        raise ProtocolError(f"probe: not a message of version {VERSION}: {reason_of(error)}") from error
