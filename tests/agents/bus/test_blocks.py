import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_agents.bus.blocks import BLOCK_BYTES, BlockSocket

MUCH = bytes(range(256)) * (1 << 13)
"""More than a socket takes at once."""


@pytest.fixture
def ends() -> Iterator[tuple[BlockSocket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.settimeout(20)
    with ours, theirs:
        yield BlockSocket(ours), theirs


@given(sizes=st.lists(st.integers(1, 9), min_size=1))
def test_what_came_is_received_in_pieces_of_any_size_and_the_kernel_is_asked_when_nothing_is_left(
    sizes: list[int],
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        block = BlockSocket(ours)
        said = bytes(range(1, sum(sizes) + 1 & 0xFF)) + b"end"
        theirs.sendall(said)
        heard, pieces = b"", iter(sizes * len(said))
        while len(heard) < len(said):
            heard += block.recv(next(pieces))
            assert block.left is (len(heard) < len(said))
        assert heard == said
        with pytest.raises(BlockingIOError):
            block.recv(1)
        theirs.close()
        assert block.recv(1) == b""


def test_what_is_more_than_a_block_comes_whole(ends: tuple[BlockSocket, socket.socket]) -> None:
    block, theirs = ends
    theirs.setblocking(False)
    sent = theirs.send(MUCH)
    assert sent > BLOCK_BYTES
    heard = b""
    while len(heard) < sent:
        heard += block.recv(sent)
    assert heard == MUCH[:sent]


def test_what_the_kernel_does_not_take_waits_and_goes_out_in_order(ends: tuple[BlockSocket, socket.socket]) -> None:
    block, theirs = ends
    assert block.send(MUCH) == len(MUCH)
    assert block.send(b"and the rest") == 12
    block.flush()
    assert block.waiting
    heard = b""
    while len(heard) < len(MUCH) + 12:
        heard += theirs.recv(BLOCK_BYTES)
        block.flush()
    assert heard == MUCH + b"and the rest"
    assert not block.waiting


def test_disconnect_goes_out_behind_all_else_before_it_counts_as_sent(ends: tuple[BlockSocket, socket.socket]) -> None:
    block, theirs = ends
    block.send(MUCH)
    heard = b""
    while True:
        try:
            assert block.send(b"\xe0\0") == 2
            break
        except BlockingIOError:
            heard += theirs.recv(BLOCK_BYTES)
    block.close()
    while more := theirs.recv(BLOCK_BYTES):
        heard += more
    assert heard == MUCH + b"\xe0\0"


def test_whose_other_end_is_gone_says_so_and_is_closed(ends: tuple[BlockSocket, socket.socket]) -> None:
    block, theirs = ends
    block.send(b"bye")
    theirs.close()
    with pytest.raises(BrokenPipeError):
        block.flush()
    block.close()
    assert block.fileno() == -1
