"""A frame is read back whole or not at all, and a damaged one is never taken for a record."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.core.frames import FRAME_LIMIT_BYTES, decode_frames, encode_frame

payload_lists = st.lists(st.binary(max_size=40), max_size=6)


@given(payloads=payload_lists, cut=st.integers(0, 400))
def test_truncated_tail_yields_only_whole_frames(payloads: list[bytes], cut: int) -> None:
    whole = b"".join(map(encode_frame, payloads))
    data = whole[:cut]
    frames = decode_frames(data)
    assert list(frames.payloads) == payloads[: len(frames.payloads)]
    assert frames.good_bytes == sum(len(encode_frame(payload)) for payload in frames.payloads)
    assert frames.torn == (frames.good_bytes != len(data))


@given(payloads=payload_lists, tail=st.binary(min_size=1, max_size=60), overwritten=st.integers(0, 400))
def test_damaged_tail_never_yields_a_wrong_payload(payloads: list[bytes], tail: bytes, overwritten: int) -> None:
    whole = b"".join(map(encode_frame, payloads))
    at = max(0, len(whole) - overwritten)
    frames = decode_frames(whole[:at] + tail + whole[at + len(tail) :])
    assert list(frames.payloads) == payloads[: len(frames.payloads)]


@given(payloads=payload_lists, zeros=st.integers(0, 200))
def test_frames_come_back_and_a_tail_of_zeros_is_torn_and_no_frames(payloads: list[bytes], zeros: int) -> None:
    data = b"".join(map(encode_frame, payloads))
    frames = decode_frames(data + bytes(zeros))
    assert (list(frames.payloads), frames.good_bytes, frames.torn) == (payloads, len(data), zeros > 0)


def test_single_flipped_bit_is_always_found() -> None:
    good = encode_frame(b"first")
    frame = encode_frame(b"commit plan 7")
    for bit in range(len(frame) * 8):
        damaged = bytearray(frame)
        damaged[bit // 8] ^= 1 << bit % 8
        frames = decode_frames(good + bytes(damaged))
        assert (frames.payloads, frames.good_bytes, frames.torn) == ((b"first",), len(good), True)


def test_frame_over_the_limit_is_refused_and_its_length_is_not_believed() -> None:
    with pytest.raises(ValueError, match="over the limit of 16777216 bytes"):
        encode_frame(bytes(FRAME_LIMIT_BYTES + 1))
    whole = encode_frame(bytes(FRAME_LIMIT_BYTES))
    assert not decode_frames(whole).torn


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=8), st.data())
def test_reading_that_resumes_loses_only_the_frames_that_were_hurt(tails: list[bytes], data: st.DataObject) -> None:
    payloads = [b"mark" + tail for tail in tails]
    frames = [encode_frame(payload) for payload in payloads]
    hurt = data.draw(st.integers(0, len(frames) - 1))
    at = data.draw(st.integers(0, len(frames[hurt]) - 1))
    broken = bytearray(frames[hurt])
    broken[at] ^= data.draw(st.integers(1, 255))
    found = decode_frames(b"".join([*frames[:hurt], bytes(broken), *frames[hurt + 1 :]]), resume=b"mark")
    assert found.good_bytes == sum(map(len, frames[:hurt]))
    unfinished = sum(map(len, frames)) - found.end_bytes
    if at < 4:  # a damaged length is found out
        assert (list(found.payloads), found.damaged_bytes, unfinished) == (payloads, 4, 0)
    else:
        assert list(found.payloads) == payloads[:hurt] + payloads[hurt + 1 :]
        assert found.damaged_bytes + unfinished == len(broken)


def test_frame_with_a_damaged_length_is_read_and_an_unfinished_one_is_not_damage() -> None:
    first = encode_frame(b"mark one")
    for cut in (1, 7, 8, 11):
        found = decode_frames(first + encode_frame(b"mark two")[:cut], resume=b"mark")
        assert (found.payloads, found.damaged_bytes, found.end_bytes) == ((b"mark one",), 0, len(first)), (
            f"cut at {cut}"
        )
    payloads = (b"mark one", b"mark number two", b"mark three")
    for number, bit in itertools.product(range(3), range(32)):
        frames = [bytearray(encode_frame(payload)) for payload in payloads]
        frames[number][bit // 8] ^= 1 << bit % 8
        found = decode_frames(b"".join(frames), resume=b"mark")
        whole = (payloads, 4, sum(map(len, frames)))
        assert (found.payloads, found.damaged_bytes, found.end_bytes) == whole, f"bit {bit} of frame {number}"
