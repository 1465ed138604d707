"""The wire of a twin host: whole frames whatever the chunks, and garbage ends the connection, not the twin."""

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from hwd_agents.sources.twin import hostwire
from hwd_agents.sources.twin.hostwire import Unframer
from hwd_agents.sources.twin.hostwire_server import HostWireServer
from hwd_agents.sources.twin.manual_host import ManualHost
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.virtual_time import run_virtual

from ....drivers.parts import Connected

FRAMES: list[hostwire.FromAgent] = [
    hostwire.Hello(host="h0"),
    hostwire.Refresh(id=1),
    hostwire.ReadModule(id=2, interface="eth0"),
    hostwire.ReadFile(id=3, path="class/infiniband/mlx5_0/ports/1/state"),
    hostwire.OpenPort(id=4, interface="eth0", ip="10.0.0.1", port=0),
    hostwire.ClosePort(interface="eth0", port=49152),
    hostwire.Datagram(interface="eth0", source=("10.0.0.1", 1), target=("10.0.0.2", 2), payload=bytes(range(256))),
]


class Peer(Connected):
    """An agent's end that only collects."""

    def __init__(self) -> None:
        self.unframer = Unframer()
        self.frames: list[hostwire.FromTwin] = []
        self.lost = False

    @override
    def data_received(self, data: bytes) -> None:
        self.frames += [hostwire.decode_from_twin(payload) for payload in self.unframer.feed(data)]

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


@given(st.lists(st.integers(0, 5000)))
def test_frames_are_whole_wherever_the_stream_is_cut(cuts: list[int]) -> None:
    stream = b"".join(hostwire.encode_frame(frame) for frame in FRAMES)
    edges = [0, *sorted(cut % len(stream) for cut in cuts), len(stream)]
    unframer = Unframer()
    payloads = [payload for a, b in itertools.pairwise(edges) for payload in unframer.feed(stream[a:b])]
    assert [hostwire.decode_from_agent(payload) for payload in payloads] == FRAMES


@given(st.binary(max_size=200))
def test_garbage_is_a_protocol_error_for_either_end(garbage: bytes) -> None:
    for decode in (hostwire.decode_from_agent, hostwire.decode_from_twin):
        with pytest.raises(ProtocolError, match="not a frame"):
            decode(garbage)


def test_a_frame_over_the_limit_is_refused_at_its_length() -> None:
    with pytest.raises(ProtocolError, match="over the limit of 1048576 bytes"):
        Unframer().feed((1 << 24).to_bytes(4))


async def talk(said: bytes) -> Peer:
    """Who has said this to a twin host."""
    dialer = MemoryDialer(MemoryNet())
    host = ManualHost("h0")
    host.plug("eth0", ip="10.0.0.1")
    listener = await dialer.listen(lambda: HostWireServer(host, SystemClock()), "mem:h0")
    _, peer = await dialer.connect(Peer, listener.address)
    assert peer.transport is not None
    peer.transport.write(said)
    await asyncio.sleep(0.01)
    if not peer.lost:
        peer.transport.close()
    await asyncio.sleep(0.01)
    await listener.close()
    return peer


def test_an_agent_of_another_host_is_refused_by_name() -> None:
    peer = run_virtual(talk(hostwire.encode_frame(hostwire.Hello(host="h1"))))
    (refused,) = peer.frames
    assert isinstance(refused, hostwire.Refused)
    assert "this is host h0" in refused.why
    assert peer.lost


@pytest.mark.parametrize(
    "rubbish",
    [b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x02{}", hostwire.encode_frame(hostwire.Refresh(id=1))],
    ids=["another protocol", "an empty object", "a question before Hello"],
)
def test_a_twin_hangs_up_on_garbage(rubbish: bytes) -> None:
    peer = run_virtual(talk(rubbish))
    assert (peer.lost, peer.frames) == (True, [])
