"""RC recovery over simulated RDMA ports: which sends are posted in the dark, when they complete, or how they fail."""

import asyncio

import pytest

from hwd_agents.probes.rc_recovery import RcRecovery
from hwd_agents.probes.readiness import Probe
from hwd_agents.probes.verbs_ports import VerbsPorts
from hwd_agents.process.config import PortConfig, ProbeConfig, RcConfig
from hwd_agents.sources.verbs.verbs import PortEvent
from hwd_agents.wire import Peer

from ..conftest import MS, Ear, Stage, Told, ip, stage, staged
from .played_verbs import CABLE_S, Cable, PlayedVerbs, join

ACK_NS = 67_108_864
"""4.096 us * 2^14."""


class Side:
    """One host with an RDMA port, its probe and its RC recovery."""

    def __init__(self, one: Stage, name: str, config: RcConfig) -> None:
        self.name = name
        self.ear = Ear()
        self.carrier = False
        self.verbs = PlayedVerbs(one.clock, "mlx5_0")
        self._stage = one
        ports = {"eth0": PortConfig(interface="eth0", ip=ip(name), rdma="mlx5_0")}
        self.ports = VerbsPorts(ports, self.verbs, on_change=lambda: None)
        self.probe = Probe(
            name,
            ports,
            one.sources[name].datagrams,
            one.clock,
            Ear(),
            carrier=lambda port: self.carrier,
            rdma=lambda port: True,
            config=ProbeConfig(),
            origin="twin",
            on_port=lambda: None,
            verbs=self.ports,
        )
        self.rc = RcRecovery(
            ports,
            self.ports,
            one.clock,
            self.ear,
            carrier=lambda port: self.carrier,
            say=self.probe.say,
            config=config,
            origin="twin",
        )
        self.probe.on_offer.append(self.rc.take)

    def start(self) -> None:
        self._stage.run(self.ports)
        self._stage.run(self.probe)

    def set(self, carrier: bool) -> None:
        self._stage.hosts[self.name].carrier("eth0", up=carrier)
        self.carrier = carrier
        self.rc.carrier_changed("eth0", carrier=carrier, earliest_ns=self._stage.now_ns())

    def begin(self, other: "Side", reconfiguration: str, *, kept: bool = False) -> None:
        udp_port = other.probe.udp_port("eth0")
        assert udp_port is not None
        peer = Peer(
            port=f"{self.name}.eth0",
            peer=f"{other.name}.eth0",
            peer_ip=ip(other.name),
            peer_probe_port=udp_port,
            kept=kept,
            peer_verbs=other.ports.address("eth0"),
        )
        self.rc.begin(reconfiguration, peer)

    def restart(self) -> None:
        """As when its agent starts anew: other queue pairs."""
        port = self.verbs.ports["mlx5_0"]
        port.gone = "restarted"
        port.happen(PortEvent.GONE)

    def told(self) -> list[Told]:
        return self.ear.of("rc-recovery")


class Link:
    """Two sides, and the light between them."""

    def __init__(self, one: Stage, config: RcConfig) -> None:
        self.h0, self.h1 = Side(one, "h0", config), Side(one, "h1", config)
        self.sides = (self.h0, self.h1)
        self.cable: Cable = join(self.h0.verbs, self.h1.verbs)
        one.hosts["h0"].join("eth0", one.hosts["h1"], "eth0")
        for side in self.sides:
            side.start()

    def light(self, lit: bool) -> None:
        self.cable.lit = lit
        for side in self.sides:
            side.set(lit)

    def begin(self, reconfiguration: str) -> None:
        self.h0.begin(self.h1, reconfiguration)
        self.h1.begin(self.h0, reconfiguration)

    async def once(self, reconfiguration: str, dark_s: float) -> int:
        """A reconfiguration that takes the light for so long; when it is back."""
        self.begin(reconfiguration)
        self.light(False)
        await asyncio.sleep(dark_s)
        self.light(True)
        return self.h0._stage.now_ns()


async def linked(one: Stage, config: RcConfig | None = None) -> Link:
    """A link that was made once, so that both ends have queue pairs for it."""
    link = Link(one, config or RcConfig())
    await asyncio.sleep(0.1)
    link.begin("r0")
    link.light(True)
    await asyncio.sleep(1)
    assert link.h0.told() == link.h1.told() == []  # there was nothing to keep
    return link


@pytest.mark.parametrize("dark_s", [0.005, 0.05, 0.3])
@staged(stage, "h0", "h1")
async def test_the_send_of_the_dark_completes_at_the_first_retry_after_light_is_back(one: Stage, dark_s: float) -> None:
    link = await linked(one)
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


@staged(stage, "h0", "h1")
async def test_a_dark_time_longer_than_all_retries_fails_and_is_remade_when_light_is_back(one: Stage) -> None:
    link = await linked(one)
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
    assert [told.data["outcome"] for told in link.h0.told()] == ["failed", "re-made", "completed"]


@staged(stage, "h0", "h1")
async def test_a_link_that_was_never_there_before_has_no_figure_and_makes_queue_pairs_for_the_next_time(
    one: Stage,
) -> None:
    link = Link(one, RcConfig())
    await asyncio.sleep(0.1)
    await link.once("r1", 0.2)
    for side in link.sides:
        side.rc.end("eth0")  # at once: pairs are joined all the same
    await asyncio.sleep(1)
    assert link.h0.told() == []
    await link.once("r2", 0.2)
    await asyncio.sleep(1)
    assert [told.data["outcome"] for told in link.h0.told()] == ["completed"]


@staged(stage, "h0", "h1")
async def test_a_peer_that_was_restarted_meanwhile_is_joined_anew(one: Stage) -> None:
    link = await linked(one)
    link.h1.restart()
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


@staged(stage, "h0", "h1")
async def test_a_kept_link_posts_nothing(one: Stage) -> None:
    link = await linked(one)
    link.h0.begin(link.h1, "r1", kept=True)
    link.light(False)
    await asyncio.sleep(0.2)
    link.light(True)
    await asyncio.sleep(1)
    assert link.h0.told() == []


@staged(stage, "h0", "h1")
async def test_settle_waits_for_posted_sends_up_to_its_limit(one: Stage) -> None:
    link = await linked(one)
    loop = asyncio.get_running_loop()
    await link.h0.rc.wait(("eth0",), 5)  # nothing is posted
    begun_s = loop.time()
    await link.once("r1", 0.01)
    await link.h0.rc.wait(("eth0",), 5)
    assert loop.time() - begun_s == pytest.approx(ACK_NS / 1e9 + 2 * CABLE_S, abs=0.001)
    link.begin("r2")
    link.light(False)
    await link.h0.rc.wait(("eth0",), 5)  # without carrier nothing can complete
    link.h0.set(True)
    begun_s = loop.time()
    await link.h0.rc.wait(("eth0",), 0.3)
    assert loop.time() - begun_s == pytest.approx(0.3, abs=0.001)


@staged(stage, "h0", "h1")
async def test_a_device_that_goes_while_a_send_is_out_has_failed(one: Stage) -> None:
    link = await linked(one)
    link.begin("r1")
    link.light(False)
    link.h0.restart()
    await asyncio.sleep(0.1)
    (told,) = link.h0.told()
    assert (told.data["outcome"], told.data["why"]) == ("failed", "restarted")


@staged(stage, "h0", "h1")
async def test_a_peer_that_answers_no_offer_is_asked_a_stated_number_of_times(one: Stage) -> None:
    link = Link(one, RcConfig())
    await asyncio.sleep(0.1)
    link.h0.begin(link.h1, "r1")
    link.light(True)
    await asyncio.sleep(120)
    assert one.hosts["h0"].datagrams_sent == 30
