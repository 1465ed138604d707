"""The readiness probe over played RDMA ports: which way it takes, what counts, and what a mixed pair does."""

import asyncio

import pytest

from ..conftest import MS, Stage
from .played_verbs import CABLE_S, Cable, join
from .sides import Side, up, watch


async def pair(one: Stage, *, missing: str = "", device: str | None = "mlx5_0") -> tuple[Side, Side, Cable]:
    """Two ends with verbs that watch each other, dark, joined by a cable and for UDP; `missing` at the second."""
    h0, h1 = Side(one, "h0", verbs=True), Side(one, "h1", verbs=True, missing=missing, device=device)
    cable = join(h0.verbs, h1.verbs)
    one.hosts["h0"].join("eth0", one.hosts["h1"], "eth0")
    for side in (h0, h1):
        side.start()
    await asyncio.sleep(0.1)
    watch(h0, h1)
    await asyncio.sleep(0.1)
    return h0, h1, cable


def sent_by_verbs(side: Side) -> int:
    datagrams = side.verbs.ports["mlx5_0"].datagrams
    assert datagrams is not None
    return datagrams.sent


async def test_two_ends_with_verbs_are_ready_by_ud_sends_there_and_back(one: Stage) -> None:
    h0, h1, _ = await pair(one)
    up_ns = one.now_ns()
    up(h0, h1)
    await asyncio.sleep(1)
    for side, peer in ((h0, "h1.eth0"), (h1, "h0.eth0")):
        (ready,) = side.ear.of("ready")
        assert (ready.earliest_ns, ready.at_ns) == (up_ns, up_ns + round(2 * CABLE_S * 1e9))
        expected = {"reconfiguration": "r1", "peer": peer, "via": "verbs-ud", "sent": 1, "failed": 0}
        assert ready.data == expected
        assert sent_by_verbs(side) == 2  # a request and a reply
    assert one.hosts["h0"].datagrams_sent == 0


async def test_udp_that_passes_makes_no_pair_ready_that_has_verbs(one: Stage) -> None:
    h0, h1, cable = await pair(one)
    cable.lit = False
    for side in (h0, h1):
        side.verbs.ports["mlx5_0"].known = set()  # asks by UDP, too
        side.set(True)
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
    ("missing", "rdma", "removed", "whys"),
    [
        ("pyverbs cannot be loaded", "mlx5_0", "", ("h1.eth0 is not probed by verbs", "pyverbs cannot be loaded")),
        ("", None, "", ("h1.eth0 is not probed by verbs", None)),
        ("", "mlx5_0", "there is no RDMA device mlx5_0", ("there is no RDMA device mlx5_0",) * 2),
    ],
    ids=["no pyverbs", "no device", "removed meanwhile"],
)
async def test_a_mixed_pair_is_probed_by_udp_and_says_why(
    one: Stage, missing: str, rdma: str | None, removed: str, whys: tuple[str, str | None]
) -> None:
    h0, h1, _ = await pair(one, missing=missing, device=rdma)
    for side in (h0, h1) if removed else ():
        side.verbs.missing["mlx5_0"] = removed
        side.lose_device("removed")
    await asyncio.sleep(0.1)
    up(h0, h1)
    await asyncio.sleep(1)
    for side, why in zip((h0, h1), whys, strict=True):
        (ready,) = side.ear.of("ready")
        assert (ready.data["via"], ready.data.get("why_udp")) == ("udp", why)
    assert sent_by_verbs(h0) == 0


async def test_packets_by_verbs_keep_to_the_stated_rate(one: Stage) -> None:
    h0, _, cable = await pair(one)
    cable.lit = False
    h0.set(True)
    await asyncio.sleep(60)
    assert 60 / 0.05 * 0.98 < sent_by_verbs(h0) < 60 / 0.05 + 40  # 50 ms apart, faster at first
