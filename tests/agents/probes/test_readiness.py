"""The readiness probe over simulated light: which ports are ready, the earliest time of it, and the packet rate."""

import asyncio
import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_agents.probes import datagrams as probe_wire
from hwd_agents.probes.token_bucket import Bucket
from hwd_agents.process.config import ProbeConfig
from hwd_agents.sources.kernel.udp import Datagrams
from hwd_drivers.twins.virtual_time import run_virtual

from ..conftest import LATENCY_NS, MS, Stage, ip, stop
from .sides import Side, up, watch

WIRE_NS = 2 * LATENCY_NS
"""One way: from an agent to the twin hosts, and from there to the other agent."""


async def sides(one: Stage, *names: str, config: ProbeConfig | None = None) -> list[Side]:
    """Those of two hosts that are joined."""
    one.hosts["h0"].join("eth0", one.hosts["h1"], "eth0")
    found = [Side(one, name, config=config) for name in names or ("h0", "h1")]
    for side in found:
        side.start()
    await asyncio.sleep(0.01)
    return found


class Hand:
    """The other end of h0.eth0, at 10.0.1.0, where the test itself takes requests and answers them."""

    def __init__(self, one: Stage, answer: Callable[[probe_wire.Request], probe_wire.Reply | None]) -> None:
        self.requests: list[tuple[int, probe_wire.Request]] = []
        self._stage = one
        self._answer = answer
        self._datagrams: Datagrams | None = None

    async def open(self) -> int:
        self._stage.hosts["h1"].carrier("eth0", up=True)
        self._datagrams = await self._stage.sources["h1"].datagrams.open("eth0", ip("h1"), 0, self._take)
        return self._datagrams.port

    def _take(self, payload: bytes, address: tuple[str, int], at_ns: int) -> None:
        request = probe_wire.decode(payload)
        assert isinstance(request, probe_wire.Request)
        self.requests.append((at_ns, request))
        reply = self._answer(request)
        if reply is not None:
            assert self._datagrams is not None
            self._datagrams.send(probe_wire.encode(reply), address)


def reply_to(request: probe_wire.Request, **more: object) -> probe_wire.Reply:
    fields: dict[str, object] = {"port": "h1.eth0", "peer": request.port, "rdma": True, "nonce": request.nonce}
    return probe_wire.Reply(**{"reconfiguration": request.reconfiguration, **fields, **more})  # type: ignore[arg-type]


async def test_both_ends_become_ready_on_the_first_attempt_over_a_link_that_works(one: Stage) -> None:
    h0, h1 = await sides(one)
    watch(h0, h1)
    await asyncio.sleep(1)
    up_ns = one.now_ns()
    up(h0, h1)
    await asyncio.sleep(1)
    for side, peer in ((h0, "h1.eth0"), (h1, "h0.eth0")):
        (ready,) = side.ear.told
        found = (ready.kind, ready.earliest_ns, ready.at_ns)
        assert found == ("ready", up_ns, up_ns + WIRE_NS + LATENCY_NS)  # stamped where it arrives
        assert ready.data == {"reconfiguration": "r1", "peer": peer, "via": "udp", "sent": 1, "failed": 0}
        seen = side.probe.observation("eth0")
        assert (seen.seen, seen.now, seen.looks, seen.failed) == (True, True, 1, 0)


async def test_one_end_alone_is_never_ready(one: Stage) -> None:
    h0, h1 = await sides(one)
    up(h0, h1)
    h0.begin("h1", h1.udp_port())  # h1 was not told to observe, and does not answer
    await asyncio.sleep(10)
    assert (h0.ear.told, h1.ear.told) == ([], [])
    assert h1.probe.unanswered == h0.probe.observation("eth0").looks > 100
    h1.begin("h0", h0.udp_port())
    await asyncio.sleep(1)
    assert (h0.ear.kinds(), h1.ear.kinds()) == (["ready"], ["ready"])


async def test_a_wrong_peer_is_never_ready_and_is_told_once(one: Stage) -> None:
    h0, h1 = await sides(one)
    up(h0, h1)
    h0.begin("h1", h1.udp_port(), peer="h7.eth3")  # the patch leads to h1 instead
    h1.begin("h0", h0.udp_port())
    await asyncio.sleep(20)
    for side in (h0, h1):
        assert "ready" not in side.ear.kinds()
    (wrong,) = h0.ear.told
    assert wrong.kind == "wrong-peer"
    assert wrong.data == {"reconfiguration": "r1", "expected": "h7.eth3", "found": "h1.eth0"}
    assert len(h1.ear.told) == 1  # whoever asks us takes us for another
    assert h0.probe.observation("eth0").looks > 100


@pytest.mark.parametrize("old", ["its reconfiguration", "it was begun anew"])
async def test_a_reply_to_what_was_asked_before_confirms_nothing(one: Stage, old: str) -> None:
    def answer(request: probe_wire.Request) -> probe_wire.Reply | None:
        if old == "its reconfiguration":
            return reply_to(request, reconfiguration="r1")
        return reply_to(request) if len(hand.requests) == 1 else None

    (h0,) = await sides(one, "h0")
    hand = Hand(one, answer)
    number = await hand.open()
    h0.set(True)
    h0.begin("h1", number, reconfiguration="r2")
    await asyncio.sleep(LATENCY_NS / 1e9)
    if old == "it was begun anew":
        h0.begin("h1", number, reconfiguration="r2")  # the daemon asks again, with the first reply on its way
    await asyncio.sleep(5)
    assert h0.ear.told == []
    if old == "its reconfiguration":
        assert h0.probe.unanswered == len(hand.requests) > 50


@pytest.mark.parametrize("down", ["h0", "h1"])
async def test_rdma_that_is_down_at_either_end_holds_both_back(one: Stage, down: str) -> None:
    both = await sides(one)
    h0, h1 = both
    for side in both:
        side.rdma["eth0"] = side.name != down
        side.set(True)
    watch(h0, h1)
    await asyncio.sleep(3)
    assert (h0.ear.told, h1.ear.told) == ([], [])
    active_ns = one.now_ns()
    for side in both:
        if side.name == down:
            side.rdma["eth0"] = True
            side.probe.rdma_changed("eth0")
    await asyncio.sleep(1)
    for side in both:
        (ready,) = side.ear.told
        assert ready.earliest_ns <= active_ns <= ready.at_ns
        hurried = side.name == down
        assert ready.at_ns - active_ns <= (2 * WIRE_NS if hurried else 51 * MS)
        assert ready.data["failed"] == ready.data["sent"] - 1 > 50


async def test_attempts_come_ever_slower_up_to_the_slowest(one: Stage) -> None:
    config = ProbeConfig(first_s=0.002, most_s=0.05, growth=1.5)
    (h0,) = await sides(one, "h0", config=config)
    hand = Hand(one, lambda request: None)
    h0.set(True)
    h0.begin("h1", await hand.open())
    await asyncio.sleep(1)
    gaps_ms = [(b - a) / MS for (a, _), (b, _) in itertools.pairwise(hand.requests)]
    grown = [2 * 1.5**n for n in range(8)]
    assert gaps_ms[:8] == pytest.approx(grown, abs=0.001)
    assert gaps_ms[8:] == pytest.approx([50] * (len(gaps_ms) - 8), abs=0.001)
    assert [request.nonce for _, request in hand.requests] == sorted({r.nonce for _, r in hand.requests})
    before = len(hand.requests)
    h0.set(False)
    h0.set(True)  # light anew: fast as at first
    await asyncio.sleep(0.0021 + WIRE_NS / 1e9)
    assert len(hand.requests) == before + 2


async def test_ready_is_not_earlier_than_the_last_attempt_that_failed(one: Stage) -> None:
    (h0,) = await sides(one, "h0")
    hand = Hand(one, lambda request: reply_to(request) if len(hand.requests) == 6 else None)
    h0.set(True)
    h0.begin("h1", await hand.open())
    await asyncio.sleep(2)
    (ready,) = h0.ear.told
    arrived = [at_ns for at_ns, _ in hand.requests]  # stamped one latency after it was sent
    assert ready.earliest_ns == arrived[4] - LATENCY_NS
    assert ready.at_ns == arrived[5] + WIRE_NS
    assert ready.sampling_ns == ready.at_ns - ready.earliest_ns
    assert (ready.data["sent"], ready.data["failed"]) == (6, 5)
    assert len(hand.requests) == 6  # who is ready asks no more


async def test_a_late_reply_counts_for_the_attempt_that_it_answers(one: Stage) -> None:
    (h0,) = await sides(one, "h0")
    hand = Hand(one, lambda request: None)
    number = await hand.open()
    begun_ns = one.now_ns()
    h0.set(True)
    h0.begin("h1", number)
    await asyncio.sleep(0.02)
    first = hand.requests[0][1]
    datagrams = await one.sources["h1"].datagrams.open("eth0", ip("h1"), 0, lambda *_: None)
    datagrams.send(probe_wire.encode(reply_to(first)), (ip("h0"), h0.udp_port()))
    await asyncio.sleep(1)
    (ready,) = h0.ear.told
    assert ready.earliest_ns == begun_ns


async def test_a_reply_that_crossed_light_that_is_gone_confirms_nothing(one: Stage) -> None:
    h0, h1 = await sides(one)
    up(h0, h1)
    watch(h1, h0)
    h0.set(False)  # in the same turn: the request is out, the reply will come
    await asyncio.sleep(1)
    assert h0.ear.told == []


async def test_what_was_ready_and_lost_its_carrier_or_rdma_becomes_ready_again_only_by_another_transfer(
    one: Stage,
) -> None:
    h0, h1 = await sides(one)
    watch(h0, h1)
    up(h0, h1)
    await asyncio.sleep(1)
    h0.set(False)
    await asyncio.sleep(1)
    assert not h0.probe.observation("eth0").now
    assert len(h0.ear.told) == 1
    up_ns = one.now_ns()
    h0.set(True)
    await asyncio.sleep(1)
    again = h0.ear.told[-1]
    assert (again.earliest_ns, again.data["failed"]) == (up_ns, 0)
    seen = h0.probe.observation("eth0")
    assert (seen.now, seen.looks, seen.failed) == (True, 2, 0)
    flapped_ns = one.now_ns()
    await asyncio.sleep(1)
    h0.probe.carrier_changed("eth0", carrier=True, earliest_ns=flapped_ns)  # nobody saw it at once
    assert not h0.probe.observation("eth0").now
    told_ns = one.now_ns()
    await asyncio.sleep(1)
    again = h0.ear.told[-1]
    assert again.earliest_ns == flapped_ns < told_ns < again.at_ns
    h0.rdma["eth0"] = False
    await asyncio.sleep(1)
    h0.rdma["eth0"] = True
    h0.probe.rdma_changed("eth0")
    await asyncio.sleep(1)
    assert h0.ear.kinds() == ["ready"] * 4
    assert len(h1.ear.told) == 1  # its own carrier never fell


async def test_all_ports_together_keep_to_the_rate_over_any_second(one: Stage) -> None:
    ports, per_s = 8, 200.0
    config = ProbeConfig(first_s=0.0005, most_s=0.0005, growth=1, packets_per_s=per_s)
    for number in range(1, ports):
        one.hosts["h0"].plug(f"eth{number}", ip=ip("h0", number))
    h0 = Side(one, "h0", ports=ports, config=config)  # joined to nothing: nobody answers
    h0.start()
    await asyncio.sleep(0.01)
    for number in range(ports):
        h0.set(True, f"eth{number}")
        h0.begin("h1", 49152, port=number)
    counts: list[int] = []
    for _ in range(600):
        counts.append(one.hosts["h0"].datagrams_sent)
        await asyncio.sleep(0.01)
    a_second = [later - earlier for earlier, later in zip(counts, counts[100:], strict=False)]
    assert max(a_second) <= per_s + per_s / 50 + 1
    assert min(a_second) >= per_s - 2  # and they use it
    looks = [h0.probe.observation(f"eth{number}").looks for number in range(ports)]
    assert min(looks) > 0.5 * max(looks)  # none is starved


async def test_replies_keep_to_a_rate_of_their_own(one: Stage) -> None:
    h0, h1 = await sides(one, config=ProbeConfig(packets_per_s=100))
    for side in (h0, h1):
        side.rdma["eth0"] = False
        side.set(True)
    h1.begin("h0", h0.udp_port())
    await asyncio.sleep(1)  # with the slowest pace reached
    flood = await one.sources["h0"].datagrams.open("eth0", ip("h0"), 0, lambda *_: None)
    asked = probe_wire.encode(probe_wire.Request(reconfiguration="r1", nonce=1, port="h0.eth0", rdma=True))
    sent = one.hosts["h1"].datagrams_sent
    for _ in range(2000):
        flood.send(asked, (ip("h1"), h1.udp_port()))
        await asyncio.sleep(0.001)
    own = 2 / 0.05
    assert 190 <= one.hosts["h1"].datagrams_sent - sent - own <= 205
    assert h1.probe.unanswered >= 1790


async def test_a_port_is_opened_again_and_again_until_its_rack_is_there(one: Stage) -> None:
    await one.rack_down("h0")
    await asyncio.sleep(0.01)
    h0, h1 = await sides(one)
    assert h0.probe.udp_port("eth0") is None
    assert "is away" in h0.probe.why_not("eth0")
    h0.begin("h1", h1.udp_port())
    h0.carrier["eth0"] = True
    seen = h0.probe.observation("eth0")
    assert not seen.seen
    assert "cannot open a UDP port on eth0" in seen.why_not
    await one.rack_up("h0")
    await asyncio.sleep(3)
    h1.begin("h0", h0.udp_port())
    assert (h0.probe.why_not("eth0"), h0.opened) == ("", 1)
    assert h0.probe.observation("eth0").looks > 50, "it asks as soon as it is open"
    up(h0, h1)
    await asyncio.sleep(1)
    assert h0.ear.kinds() == ["ready"]


async def test_a_port_whose_interface_is_removed_and_made_anew_becomes_ready_by_the_port_that_peers_know(
    one: Stage,
) -> None:
    h0, h1 = await sides(one)
    h1.set(True)
    h0.begin("h1", h1.udp_port())
    number = h0.udp_port()
    one.hosts["h0"].unplug("eth0")
    h0.probe.interface_changed("eth0", present=False)
    await asyncio.sleep(3)
    looks = h0.probe.observation("eth0").looks
    one.hosts["h0"].plug("eth0", ip=ip("h0"), ifindex=200)
    h0.probe.interface_changed("eth0", present=True)
    h1.begin("h0", number)
    await asyncio.sleep(1)
    assert h0.probe.observation("eth0").looks == looks, "it has no carrier yet"
    h0.set(True)
    await asyncio.sleep(1)
    assert (h0.ear.kinds(), h1.ear.kinds(), h0.udp_port()) == (["ready"], ["ready"], number)


async def test_garbage_is_counted_and_nothing_else_and_what_was_never_asked_says_why(one: Stage) -> None:
    h0, h1 = await sides(one)
    one.hosts["h0"].carrier("eth0", up=True)
    h1.set(True, told=False)
    h1.begin("h0", h0.udp_port())
    wild = await one.sources["h0"].datagrams.open("eth0", ip("h0"), 0, lambda *_: None)
    for payload in (b"", b"\xff\xfe\x00", b"{}", b'{"type":"request"}', b"[" * 1400):
        wild.send(payload, (ip("h1"), h1.udp_port()))
    await asyncio.sleep(0.1)
    assert (h1.probe.garbage, h1.ear.told) == (5, [])
    assert h0.probe.observation("eth0").why_not == "not observed"
    h0.begin("h1", 49152)
    await asyncio.sleep(2)
    seen = h0.probe.observation("eth0")
    assert (seen.seen, seen.why_not, seen.now) == (False, "it had no carrier", False)


async def test_after_its_end_a_port_neither_asks_nor_answers(one: Stage) -> None:
    h0, h1 = await sides(one)
    up(h0, h1)
    h0.begin("h1", h1.udp_port())
    await asyncio.sleep(1)
    h0.probe.end("eth0")
    ended = h0.probe.observation("eth0")
    h1.begin("h0", h0.udp_port())
    await asyncio.sleep(1)
    h0.set(False)
    h0.set(True)
    h0.probe.rdma_changed("eth0")
    await asyncio.sleep(1)
    assert (h0.ear.told, h1.ear.told) == ([], [])
    assert h0.probe.observation("eth0") == ended
    await stop(h0.task)
    assert h0.probe.udp_port("eth0") is None


# --- the token bucket


@given(st.lists(st.floats(0, 0.3), min_size=1, max_size=60), st.integers(1, 1000), st.integers(1, 30))
def test_no_stretch_of_time_gives_more_than_its_rate_and_one_burst(
    pauses_s: list[float], per_s: int, most: int
) -> None:
    async def take_all() -> list[float]:
        bucket = Bucket(per_s=per_s, most=most)
        taken: list[float] = []
        for pause_s in pauses_s:
            await asyncio.sleep(pause_s)
            while bucket.take():
                taken.append(asyncio.get_running_loop().time())
        return taken

    taken = run_virtual(take_all())
    for first, since_s in enumerate(taken):
        for last in range(first, len(taken)):
            assert last - first + 1 <= most + (taken[last] - since_s) * per_s + 1e-6
