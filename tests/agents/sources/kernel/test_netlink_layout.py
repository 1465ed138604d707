"""Messages of a known layout are read without a walk, and read as a walk reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_agents.sources.kernel.netlink import TYPE_MASK, attributes, encode_attribute
from hwd_agents.sources.kernel.netlink_layout import KEPT_MOST, Layouts
from hwd_drivers.core.errors import ProtocolError

WANTED = (1, 2, 3)
START = 8
MESSAGES = st.lists(st.tuples(st.sampled_from([1, 2, 3, 4, 5, 4 | 0x8000]), st.binary(max_size=9)), max_size=6)


def message(told: list[tuple[int, bytes]], head: bytes = bytes(START)) -> bytes:
    return head + b"".join(encode_attribute(kind, value) for kind, value in told)


@given(st.lists(st.tuples(MESSAGES, st.integers(0, 2), st.binary(min_size=START, max_size=START)), max_size=12))
def test_it_reads_what_a_walk_reads_whatever_came_before(
    said: list[tuple[list[tuple[int, bytes]], int, bytes]],
) -> None:
    layouts = Layouts(start=START, wanted=WANTED)
    for told, key, head in said:
        data = message(told, head)
        walked = {kind: value for kind, value in attributes(data, START).items() if kind & TYPE_MASK in WANTED}
        assert layouts.read(data, key) == walked


@given(st.binary(min_size=START, max_size=60), st.binary(min_size=START, max_size=60))
def test_bytes_that_are_no_attributes_are_refused_as_by_a_walk(first: bytes, second: bytes) -> None:
    layouts = Layouts(start=START, wanted=WANTED)
    for data in (first, second):
        try:
            walked = {kind: value for kind, value in attributes(data, START).items() if kind in WANTED}
        except ProtocolError:
            with pytest.raises(ProtocolError, match="bytes at"):
                layouts.read(data, 0)
        else:
            assert layouts.read(data, 0) == walked


def test_no_more_layouts_are_kept_than_that() -> None:
    layouts = Layouts(start=START, wanted=WANTED)
    for key in range(3 * KEPT_MOST):
        assert layouts.read(message([(1, b"eth0")]), key) == {1: b"eth0"}
    assert len(layouts._known) <= KEPT_MOST
