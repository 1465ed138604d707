"""Datagrams of the clock exchange: they are decoded as they were sent, and refused without the key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_agents.clock.datagram import LENGTH, NONCE_BYTES, Answer, Request, decode, encode
from hwd_drivers.core.errors import ProtocolError

KEY = "a" * 32
nonces = st.binary(min_size=NONCE_BYTES, max_size=NONCE_BYTES).filter(any)
times_ns = st.integers(-(1 << 63), (1 << 63) - 1)
answers = st.builds(Answer, nonce=nonces, t2_ns=times_ns, t3_ns=times_ns) | st.builds(
    Answer, nonce=nonces, t2_ns=times_ns, t3_ns=times_ns, before=nonces, t3_before_ns=times_ns
)


@given(st.builds(Request, nonce=nonces) | answers)
def test_what_was_sent_is_read_back_and_a_request_is_as_long_as_its_answer(message: Request | Answer) -> None:
    datagram = encode(message, KEY)
    assert len(datagram) == LENGTH
    assert decode(datagram, KEY) == message


@given(answers, st.integers(0, LENGTH - 1), st.integers(1, 255))
def test_a_datagram_with_one_byte_changed_or_another_key_is_refused(answer: Answer, place: int, flip: int) -> None:
    forged = bytearray(encode(answer, KEY))
    forged[place] ^= flip
    for datagram in (bytes(forged), encode(answer, "b" * 32)):
        with pytest.raises(ProtocolError, match="without the key"):
            decode(datagram, KEY)


@given(st.binary(max_size=2 * LENGTH).filter(lambda datagram: len(datagram) != LENGTH))
def test_another_length_is_refused(datagram: bytes) -> None:
    with pytest.raises(ProtocolError, match=f"not of {LENGTH}"):
        decode(datagram, KEY)
