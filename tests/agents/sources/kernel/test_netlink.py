"""Netlink framing, judged by round trips and by what the kernel's own headers say."""

import contextlib
import errno
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_agents.sources.kernel import netlink
from hwd_drivers.core.errors import ProtocolError


@given(st.dictionaries(st.integers(0, 0x3FFF), st.binary(max_size=40), max_size=8))
def test_attributes_are_read_as_they_were_written(values: dict[int, bytes]) -> None:
    data = b"".join(netlink.encode_attribute(kind, value) for kind, value in values.items())
    assert netlink.attributes(data) == values


@given(st.lists(st.tuples(st.integers(0, 0xFFFF), st.integers(0, 0xFFFF), st.binary(max_size=40)), max_size=6))
def test_messages_in_one_datagram_are_read_as_they_were_written(sent: list[tuple[int, int, bytes]]) -> None:
    data = b"".join(
        netlink.encode_message(kind, flags, sequence, payload) for sequence, (kind, flags, payload) in enumerate(sent)
    )
    read = [(each.type, each.flags, each.payload) for each in netlink.messages(data)]
    assert read == sent
    assert [each.sequence for each in netlink.messages(data)] == list(range(len(sent)))


@given(st.binary(max_size=80))
def test_garbage_is_a_protocol_error_or_nothing(garbage: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        for message in netlink.messages(garbage):
            netlink.attributes(message.payload)
    with contextlib.suppress(ProtocolError):
        netlink.attributes(garbage)


def test_message_that_is_cut_is_a_protocol_error() -> None:
    whole = netlink.encode_message(netlink.RTM_NEWLINK, 0, 1, bytes(32))
    with pytest.raises(ProtocolError, match="message of 48 bytes at 0 in a datagram of 47 bytes"):
        list(netlink.messages(whole[:-1]))


def test_nested_flag_is_no_part_of_the_type() -> None:
    assert netlink.attributes(netlink.encode_attribute(18 | 0x8000, b"x")) == {18: b"x"}


@pytest.mark.parametrize("capped", [True, False])
def test_refusal_carries_the_words_of_the_kernel(capped: bool) -> None:
    refused = netlink.encode_message(16, 0, 7, b"" if capped else bytes(8))
    payload = struct.pack("=i", -errno.EINVAL) + refused + netlink.encode_text(1, "Interface already in use")
    flags = netlink.NLM_F_ACK_TLVS | (netlink.NLM_F_CAPPED if capped else 0)
    assert netlink.decode_error(payload, flags) == (errno.EINVAL, "Invalid argument: Interface already in use")


def test_errno_zero_is_an_acknowledgement() -> None:
    assert netlink.decode_error(struct.pack("=i", 0) + bytes(16), netlink.NLM_F_CAPPED) == (0, "")
