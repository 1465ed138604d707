"""The wire between a keeper and those who ask it, and both kinds of sockets."""

import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.twin.kernel import Keeper
from hwd_agents.sources.kernel import sockets
from hwd_agents.sources.kernel.sockets import (
    HostSockets,
    KeeperRequest,
    NamespaceSockets,
    Verb,
    decode_request,
    encode_request,
)

NUMBERS = st.integers(-(2**31), 2**31 - 1)


@given(st.builds(KeeperRequest, verb=st.sampled_from(Verb), ns=st.text(), family=NUMBERS, kind=NUMBERS, proto=NUMBERS))
def test_request_is_read_as_it_was_written(request: KeeperRequest) -> None:
    assert decode_request(encode_request(request)) == request


@given(st.binary())
def test_what_is_no_request_is_a_value_error(garbage: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of json, of the codec, or ours
        decode_request(garbage)


def test_host_sockets_are_of_this_network_and_do_not_block() -> None:
    with HostSockets().open(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        assert not opened.getblocking()
        assert opened.type is socket.SOCK_DGRAM


@pytest.mark.kernel
def test_namespace_sockets_know_what_they_are(keeper: Keeper) -> None:
    with NamespaceSockets(keeper.path, "h0").open(socket.AF_NETLINK, socket.SOCK_RAW, 0) as opened:
        assert (opened.family, opened.type, opened.proto) == (socket.AF_NETLINK, socket.SOCK_RAW, 0)
        assert not opened.getblocking()
        assert not opened.get_inheritable()


def test_keeper_that_is_absent_hangs_up_or_does_not_answer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = NamespaceSockets(tmp_path / "keeper", "h0")
    with pytest.raises(FileNotFoundError, match=r"h0: cannot open a socket .* the keeper at .* is not there"):
        asked.open(socket.AF_INET, socket.SOCK_DGRAM)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(tmp_path / "keeper"))
        listener.listen()
        rude = threading.Thread(target=lambda: listener.accept()[0].close())
        rude.start()
        with pytest.raises(OSError, match=r"the keeper at .* (hung up|is not there)"):
            asked.open(socket.AF_INET, socket.SOCK_DGRAM)
        rude.join()
        monkeypatch.setattr(sockets, "ANSWER_TIMEOUT_S", 0.05)
        with pytest.raises(TimeoutError, match=r"no answer from the keeper at .* in 0.05 s"):
            asked.open(socket.AF_INET, socket.SOCK_DGRAM)
