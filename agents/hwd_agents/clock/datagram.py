"""The datagrams of the four-timestamp exchange, signed with this boot's key.

The key is in the birth message: who can read that could also publish as the agent, and nobody else has the key. A
request is as long as its answer, so that the agent cannot amplify traffic from forged addresses.
"""

import hashlib
import hmac
import struct
from dataclasses import dataclass
from typing import Final

from hwd_drivers.core.errors import ProtocolError

NONCE_BYTES: Final = 16
_MAGIC: Final = b"hwdclk1"
_LAYOUT: Final = struct.Struct("!7sc16sqq16sq")  # magic, kind, nonce, t2, t3, nonce before, t3 before
_PROOF_BYTES: Final = 16
LENGTH: Final = _LAYOUT.size + _PROOF_BYTES
_NO_NONCE: Final = bytes(NONCE_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Asks for the time. `nonce`: 16 bytes that were never used before."""

    nonce: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The agent's clock: the request had arrived by `t2_ns`, and this answer left at or after `t3_ns`.

    `before`: nonce of the previous request, whose answer left at or after `t3_before_ns`, by the kernel's stamp of
    sending.
    """

    nonce: bytes
    t2_ns: int
    t3_ns: int
    before: bytes | None = None
    t3_before_ns: int = 0


def encode(message: Request | Answer, key: str) -> bytes:
    """Encode a message with the proof."""
    if isinstance(message, Request):
        body = _LAYOUT.pack(_MAGIC, b"?", message.nonce, 0, 0, _NO_NONCE, 0)
    else:
        before = message.before or _NO_NONCE
        body = _LAYOUT.pack(_MAGIC, b"!", message.nonce, message.t2_ns, message.t3_ns, before, message.t3_before_ns)
    return body + _proof(body, key)


def decode(datagram: bytes, key: str) -> Request | Answer:
    """Raises ProtocolError for anything else, and for a datagram that was made without the key."""
    if len(datagram) != LENGTH:
        raise ProtocolError(f"clock: a datagram of {len(datagram)} bytes, not of {LENGTH}")
    body, proof = datagram[: _LAYOUT.size], datagram[_LAYOUT.size :]
    if not hmac.compare_digest(proof, _proof(body, key)):
        raise ProtocolError("clock: a datagram that was made without the key of this boot")
    magic, kind, nonce, t2_ns, t3_ns, before, t3_before_ns = _LAYOUT.unpack(body)
    match magic, kind:
        case (b"hwdclk1", b"?"):
            return Request(nonce=nonce)
        case (b"hwdclk1", b"!"):
            before = None if before == _NO_NONCE else before
            return Answer(nonce=nonce, t2_ns=t2_ns, t3_ns=t3_ns, before=before, t3_before_ns=t3_before_ns)
    raise ProtocolError(f"clock: a datagram of another version ({magic!r}, {kind!r})")


def _proof(body: bytes, key: str) -> bytes:
    return hashlib.blake2s(body, key=key.encode(), digest_size=_PROOF_BYTES).digest()
