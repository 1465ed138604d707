"""The readiness probe over played RDMA ports: which way it takes, what counts, and what a mixed pair does."""

import asyncio

import pytest

from hwd_agents.probes.readiness import Probe
from hwd_agents.probes.verbs_ports import VerbsPorts
from hwd_agents.process.config import PortConfig, ProbeConfig
from hwd_agents.sources.verbs.verbs import PortEvent
from hwd_agents.wire import Peer

from ..conftest import MS, Ear, Stage, ip, stage, staged
from .played_verbs import CABLE_S, Cable, PlayedVerbs, join


class Side:
    """One host's probe with an RDMA port; UDP passes between joined hosts, verbs over a lit cable."""

    def __init__(self, one: Stage, name: str, *, missing: str = "", rdma: str | None = "mlx5_0") -> None:
        self.name = name
        self.ear = Ear()
        self.carrier = False
        self.verbs = PlayedVerbs(one.clock, "mlx5_0")
        if missing:
            self.verbs.missing["mlx5_0"] = missing
        self._stage = one
        ports = {"eth0": PortConfig(interface="eth0", ip=ip(name), rdma=rdma)}
        self.ports = VerbsPorts(ports, self.verbs, on_change=lambda: None)
        self.probe = Probe(
            name,
            ports,
            one.sources[name].datagrams,
            one.clock,
            self.ear,
            carrier=lambda port: self.carrier,
            rdma=lambda port: True,
            config=ProbeConfig(),
            origin="twin",
            on_port=lambda: None,
            verbs=self.ports,
        )

    def start(self) -> None:
        self._stage.run(self.ports)
        self._stage.run(self.probe)

    def up(self) -> None:
        self._stage.hosts[self.name].carrier("eth0", up=True)
        self.carrier = True
        self.probe.carrier_changed("eth0", carrier=True, earliest_ns=self._stage.now_ns())

    def begin(self, other: "Side") -> None:
        udp_port = other.probe.udp_port("eth0")
        assert udp_port is not None
        peer = Peer(
            port=f"{self.name}.eth0",
            peer=f"{other.name}.eth0",
            peer_ip=ip(other.name),
            peer_probe_port=udp_port,
            kept=False,
            peer_verbs=other.ports.address("eth0"),
        )
        self.probe.begin("r1", peer)

    def sent_by_verbs(self) -> int:
        pair = self.verbs.ports["mlx5_0"].datagrams
        assert pair is not None
        return pair.sent


async def pair(one: Stage, h0: Side, h1: Side) -> Cable:
    """Two ends that watch each other, dark, joined by a cable and for UDP."""
    cable = join(h0.verbs, h1.verbs)
    one.hosts["h0"].join("eth0", one.hosts["h1"], "eth0")
    for side in (h0, h1):
        side.start()
    await asyncio.sleep(0.1)
    h0.begin(h1)
    h1.begin(h0)
    await asyncio.sleep(0.1)
    return cable


@staged(stage, "h0", "h1")
async def test_two_ends_with_verbs_are_ready_by_ud_sends_there_and_back(one: Stage) -> None:
    h0, h1 = Side(one, "h0"), Side(one, "h1")
    await pair(one, h0, h1)
    up_ns = one.now_ns()
    for side in (h0, h1):
        side.up()
    await asyncio.sleep(1)
    for side, peer in ((h0, "h1.eth0"), (h1, "h0.eth0")):
        (ready,) = side.ear.of("ready")
        assert (ready.earliest_ns, ready.at_ns) == (up_ns, up_ns + round(2 * CABLE_S * 1e9))
        expected = {"reconfiguration": "r1", "peer": peer, "via": "verbs-ud", "sent": 1, "failed": 0}
        assert ready.data == expected
        assert side.sent_by_verbs() == 2  # a request and a reply
    assert one.hosts["h0"].datagrams_sent == 0


@staged(stage, "h0", "h1")
async def test_udp_that_passes_makes_no_pair_ready_that_has_verbs(one: Stage) -> None:
    h0, h1 = Side(one, "h0"), Side(one, "h1")
    cable = await pair(one, h0, h1)
    cable.lit = False
    for side in (h0, h1):
        side.verbs.ports["mlx5_0"].known = set()  # asks by UDP, too
        side.up()
    await asyncio.sleep(3)
    assert one.hosts["h0"].datagrams_sent > 10
    assert (h0.ear.told, h1.ear.told) == ([], [])
    failed_ns = one.now_ns() - 50 * MS
    cable.lit = True
    for side in (h0, h1):
        side.verbs.ports["mlx5_0"].known = None
    await asyncio.sleep(1)
    for side in (h0, h1):
        (ready,) = side.ear.told
        assert ready.data["via"] == "verbs-ud"
        assert ready.data["failed"] == ready.data["sent"] - 1 > 10
        assert ready.earliest_ns >= failed_ns


@pytest.mark.parametrize(
    ("missing", "rdma", "whys"),
    [
        ("pyverbs cannot be loaded", "mlx5_0", ("h1.eth0 is not probed by verbs", "pyverbs cannot be loaded")),
        ("", None, ("h1.eth0 is not probed by verbs", None)),
    ],
)
@staged(stage, "h0", "h1")
async def test_a_mixed_pair_is_probed_by_udp_and_says_why(
    one: Stage, missing: str, rdma: str | None, whys: tuple[str, str | None]
) -> None:
    h0, h1 = Side(one, "h0"), Side(one, "h1", missing=missing, rdma=rdma)
    await pair(one, h0, h1)
    for side in (h0, h1):
        side.up()
    await asyncio.sleep(1)
    for side, why in zip((h0, h1), whys, strict=True):
        (ready,) = side.ear.of("ready")
        assert (ready.data["via"], ready.data.get("why_udp")) == ("udp", why)
    assert h0.sent_by_verbs() == 0


@staged(stage, "h0", "h1")
async def test_a_pair_whose_device_was_removed_meanwhile_is_probed_by_udp(one: Stage) -> None:
    h0, h1 = Side(one, "h0"), Side(one, "h1")
    await pair(one, h0, h1)
    for side in (h0, h1):
        side.verbs.missing["mlx5_0"] = "there is no RDMA device mlx5_0"
        side.verbs.ports["mlx5_0"].gone = "removed"
        side.verbs.ports["mlx5_0"].happen(PortEvent.GONE)
    await asyncio.sleep(0.1)
    for side in (h0, h1):
        side.up()
    await asyncio.sleep(1)
    for side in (h0, h1):
        (ready,) = side.ear.of("ready")
        assert ready.data["why_udp"] == "there is no RDMA device mlx5_0"


@staged(stage, "h0", "h1")
async def test_packets_by_verbs_keep_to_the_stated_rate(one: Stage) -> None:
    h0, h1 = Side(one, "h0"), Side(one, "h1")
    cable = await pair(one, h0, h1)
    cable.lit = False
    h0.up()
    await asyncio.sleep(60)
    assert 60 / 0.05 * 0.98 < h0.sent_by_verbs() < 60 / 0.05 + 40  # 50 ms apart, faster at first
