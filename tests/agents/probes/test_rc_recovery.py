"""RC recovery over simulated RDMA ports: which sends are posted in the dark, when they complete, or how they fail."""

import asyncio

import pytest

from hwd_agents.probes.rc_recovery import RcRecovery
from hwd_agents.process.config import RcConfig
from hwd_agents.wire import Peer

from ..conftest import MS, Ear, Stage, Told, ip
from .played_verbs import CABLE_S, Cable, join
from .sides import Side

ACK_NS = 67_108_864
"""4.096 us * 2^14."""


class RcSide(Side):
    """A side with its RC recovery."""

    def __init__(self, one: Stage, name: str) -> None:
        super().__init__(one, name, verbs=True)
        self.rc_ear = Ear()
        self.rc = RcRecovery(
            self.config,
            self.ports,
            one.clock,
            self.rc_ear,
            carrier=lambda port: bool(self.carrier[port]),
            say=self.probe.say,
            config=RcConfig(),
            origin="twin",
        )
        self.probe.on_offer.append(self.rc.take)

    def light(self, lit: bool) -> None:
        self.set(lit)
        self.rc.carrier_changed("eth0", carrier=lit, earliest_ns=self.stage.now_ns())

    def look_for(self, other: Side, reconfiguration: str, *, kept: bool = False) -> None:
        peer = Peer(
            port=f"{self.name}.eth0",
            peer=f"{other.name}.eth0",
            peer_ip=ip(other.name),
            peer_probe_port=other.udp_port(),
            kept=kept,
            peer_verbs=other.ports.address("eth0"),
        )
        self.rc.begin(reconfiguration, peer)

    def told(self) -> list[Told]:
        return self.rc_ear.of("rc-recovery")

    def outcomes(self) -> list[str]:
        return [told.data["outcome"] for told in self.told()]


class Link:
    """Two sides, and the light between them."""

    def __init__(self, one: Stage) -> None:
        self.h0, self.h1 = RcSide(one, "h0"), RcSide(one, "h1")
        self.sides = (self.h0, self.h1)
        self.cable: Cable = join(self.h0.verbs, self.h1.verbs)
        one.hosts["h0"].join("eth0", one.hosts["h1"], "eth0")
        for side in self.sides:
            side.start()

    def light(self, lit: bool) -> None:
        self.cable.lit = lit
        for side in self.sides:
            side.light(lit)

    def begin(self, reconfiguration: str) -> None:
        self.h0.look_for(self.h1, reconfiguration)
        self.h1.look_for(self.h0, reconfiguration)

    async def once(self, reconfiguration: str, dark_s: float) -> int:
        """A reconfiguration that takes the light for so long; when it is back."""
        self.begin(reconfiguration)
        self.light(False)
        await asyncio.sleep(dark_s)
        self.light(True)
        return self.h0.stage.now_ns()


@pytest.fixture
async def link(one: Stage) -> Link:
    """It was made once, so that both ends have queue pairs for it."""
    link = Link(one)
    await asyncio.sleep(0.1)
    link.begin("r0")
    link.light(True)
    await asyncio.sleep(1)
    assert link.h0.told() == link.h1.told() == []  # there was nothing to keep
    return link


@pytest.mark.parametrize("dark_s", [0.005, 0.05, 0.3])
async def test_the_send_of_the_dark_completes_at_the_first_retry_after_light_is_back(
    one: Stage, link: Link, dark_s: float
) -> None:
    posted_ns = one.now_ns()
    back_ns = await link.once("r1", dark_s)
    await asyncio.sleep(1)
    retry_ns = posted_ns + -(-(back_ns - posted_ns) // ACK_NS) * ACK_NS
    for side, peer in ((link.h0, "h1.eth0"), (link.h1, "h0.eth0")):
        (told,) = side.told()
        assert told.at_ns == pytest.approx(retry_ns + 2 * CABLE_S * 1e9, abs=10)
        assert max(back_ns, told.at_ns - 4 * MS) <= told.earliest_ns <= retry_ns + 2 * CABLE_S * 1e9
        assert told.data == {
            "reconfiguration": "r1",
            "peer": peer,
            "outcome": "completed",
            "after_s": pytest.approx((told.at_ns - posted_ns) / 1e9),
            "ack_timeout_s": 0.067108864,
            "retries": 7,
        }


async def test_a_dark_time_longer_than_all_retries_fails_and_is_remade_when_light_is_back(
    one: Stage, link: Link
) -> None:
    posted_ns = one.now_ns()
    back_ns = await link.once("r1", 3)
    await asyncio.sleep(1)
    for side in link.sides:
        failed, remade = side.told()
        assert failed.data["outcome"] == "failed"
        assert failed.data["why"] == "retry count exceeded"
        assert failed.at_ns == pytest.approx(posted_ns + 8 * ACK_NS, abs=10)
        assert remade.data["outcome"] == "re-made"
        assert back_ns == remade.earliest_ns < remade.at_ns < back_ns + 50 * MS
    back_ns = await link.once("r2", 0.05)  # what was made anew is kept in turn
    await asyncio.sleep(1)
    assert link.h0.outcomes() == ["failed", "re-made", "completed"]


async def test_a_link_that_was_never_there_before_has_no_figure_and_makes_queue_pairs_for_the_next_time(
    one: Stage,
) -> None:
    link = Link(one)
    await asyncio.sleep(0.1)
    await link.once("r1", 0.2)
    for side in link.sides:
        side.rc.end("eth0")  # at once: pairs are joined all the same
    await asyncio.sleep(1)
    assert link.h0.told() == []
    await link.once("r2", 0.2)
    await asyncio.sleep(1)
    assert link.h0.outcomes() == ["completed"]


async def test_a_peer_that_was_restarted_meanwhile_is_joined_anew(one: Stage, link: Link) -> None:
    link.h1.lose_device("restarted")
    await asyncio.sleep(0.1)
    await link.once("r1", 0.1)
    await asyncio.sleep(1)
    failed, remade = link.h0.told()
    assert failed.data["why"] == "the peer has made its queue pair anew"
    assert remade.data["outcome"] == "re-made"
    assert link.h1.told() == []
    await link.once("r2", 0.1)
    await asyncio.sleep(1)
    assert link.h1.told()[-1].data["outcome"] == "completed"


async def test_settle_waits_for_posted_sends_up_to_its_limit(one: Stage, link: Link) -> None:
    loop = asyncio.get_running_loop()
    await link.h0.rc.wait(("eth0",), 5)  # nothing is posted
    begun_s = loop.time()
    await link.once("r1", 0.01)
    await link.h0.rc.wait(("eth0",), 5)
    assert loop.time() - begun_s == pytest.approx(ACK_NS / 1e9 + 2 * CABLE_S, abs=0.001)
    link.begin("r2")
    link.light(False)
    await link.h0.rc.wait(("eth0",), 5)  # without carrier nothing can complete
    link.h0.light(True)
    begun_s = loop.time()
    await link.h0.rc.wait(("eth0",), 0.3)
    assert loop.time() - begun_s == pytest.approx(0.3, abs=0.001)


async def test_a_kept_link_posts_nothing_and_a_device_that_goes_while_a_send_is_out_has_failed(link: Link) -> None:
    link.h0.look_for(link.h1, "r1", kept=True)
    link.light(False)
    await asyncio.sleep(0.2)
    link.light(True)
    await asyncio.sleep(1)
    assert link.h0.told() == []
    link.begin("r2")
    link.light(False)
    link.h0.lose_device("restarted")
    await asyncio.sleep(0.1)
    (told,) = link.h0.told()
    assert (told.data["outcome"], told.data["why"]) == ("failed", "restarted")


async def test_a_peer_that_answers_no_offer_is_asked_a_stated_number_of_times(one: Stage) -> None:
    link = Link(one)
    await asyncio.sleep(0.1)
    link.h0.look_for(link.h1, "r1")
    link.light(True)
    await asyncio.sleep(120)
    assert one.hosts["h0"].datagrams_sent == 30
