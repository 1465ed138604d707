"""All-to-alls that say their parts: over light between hosts that it joins, over packet switches between the others."""

import pytest

from hwd.jobs.efficiency.primitives import primitives_of
from hwd.jobs.verification.recorded_operations import operations_of
from hwd.model.job import JobRank
from hwd.model.plane import Applied, Done, Grant, Intent
from hwd_agents.wire import Operation, OperationKind

from ..job_record import ENDED, job_record, measured
from .test_verification import Story, light, read

PARTS: dict[int, tuple[int, ...]] = {0: (7000, 500_000, 200_000), 1: (300_000, 0, 100_000), 2: (0, 90_000, 0)}
"""By rank: what it has for each. Light joins h0 and h1; h2 has the packet switch alone."""
OVER_LIGHT = {"h0": 300_000, "h1": 500_000}
OVER_PACKETS = {"h1": 90_000, "h2": 300_000}


def ask(told: Story, parts: dict[int, tuple[int, ...]]) -> None:
    """For an all-to-all; all three are let go."""
    for rank, sizes in parts.items():
        operation = Operation(group="world", kind=OperationKind.ALL_TO_ALL, index=0, size_bytes=sum(sizes), parts=sizes)
        told.tell(200, Intent(rank=rank, operation=operation), *([Grant(ranks=(0, 1, 2))] if rank == 2 else []))


def story(**received: dict[str, int]) -> Story:
    """`received`: by port the bytes of each host that came over it."""
    ranks = [JobRank(host=f"h{n}", optical=[f"h{n}.eth0"], electrical=[f"h{n}.eth2"]) for n in range(3)]
    told = Story(
        record=job_record(
            ranks=ranks, groups={"world": [0, 1, 2]}, fibres={f"h{n}.eth0": [f"ocs1.{2 * n + 1}"] for n in range(3)}
        ),
        bytes={f"h{n}": {"eth0": (0, 0), "eth2": (0, 0)} for n in range(3)},
    )
    light(told, 100)
    told.tell(150, Applied(target="k1"), reconfiguration="r1")
    before = {rank: told.reading(f"h{rank}") for rank in PARTS}
    ask(told, PARTS)
    for port, by_host in received.items():
        for host, size_bytes in by_host.items():
            told.count(host, port, size_bytes, size_bytes)
    for rank in PARTS:
        told.tell(251, Done(rank=rank), sent=measured(201, 250, before[rank], told.reading(f"h{rank}")))
    told.say(500, ENDED)
    return told


def test_rank_that_ends_before_another_of_its_host_begins_has_brought_what_both_need() -> None:
    """It takes what comes, and passes it on."""
    parts: dict[int, tuple[int, ...]] = {0: (0, 0, 0), 1: (0, 0, 0), 2: (40_000, 50_000, 0)}
    ranks = [JobRank(host=host, electrical=[f"{host}.eth2"]) for host in ("h0", "h0", "h1")]
    told = Story(
        record=job_record(ranks=ranks, groups={"world": [0, 1, 2]}, fibres={}),
        bytes={"h0": {"eth2": (0, 0)}, "h1": {"eth2": (0, 0)}},
    )
    before = {host: told.reading(host) for host in told.bytes}
    ask(told, parts)
    told.count("h0", "eth2", 95_000, 0)
    told.count("h1", "eth2", 0, 95_000)
    for rank, (began_ms, ended_ms) in {0: (201, 230), 1: (240, 250), 2: (201, 235)}.items():
        host = ranks[rank].host
        told.tell(251, Done(rank=rank), sent=measured(began_ms, ended_ms, before[host], told.reading(host)))
    told.say(500, ENDED)
    found = told.judged()
    assert (found.breaches, found.unshown) == ([], [])


def test_parts_that_went_their_ways_hold() -> None:
    found = story(eth0=OVER_LIGHT, eth2=OVER_PACKETS).judged()
    assert (found.breaches, found.unshown) == ([], [])
    assert (found.holds, found.operations) == (True, 3)


@pytest.mark.parametrize(
    ("eth0", "eth2", "words"),
    [
        (
            {"h0": 300_000, "h1": 0},
            {"h1": 590_000, "h2": 300_000},
            "h1 received 0 bytes over h1.eth0, and the operation brings 500000 at least; over others: h1.eth2 590000",
        ),
        (
            OVER_LIGHT,
            {"h1": 80_000, "h2": 300_000},
            "h1 received 80000 bytes over h1.eth2, and the operation brings 90000 at least; "
            "over others: h1.eth0 500000",
        ),
        (
            OVER_LIGHT | {"h2": 90_000},
            {"h1": 90_000, "h2": 210_000},
            "180000 bytes went over h2.eth0, which is on no light of its target",
        ),
    ],
)
def test_parts_that_went_another_way_are_found(eth0: dict[str, int], eth2: dict[str, int], words: str) -> None:
    found = story(eth0=eth0, eth2=eth2).judged()
    assert {one.kind for one in found.breaches} == {"bytes"}
    assert any(words in one.what for one in found.breaches), [one.what for one in found.breaches]


def test_light_that_went_dark_under_parts_is_found() -> None:
    told = story(eth0=OVER_LIGHT, eth2=OVER_PACKETS)
    read(told, 220, [], ours=False)
    found = told.judged()
    assert {one.kind for one in found.breaches} == {"dark"}
    assert {one.rank for one in found.breaches} == {0, 1}


def test_effective_bytes_are_what_goes_between_hosts() -> None:
    told = story(eth0=OVER_LIGHT, eth2=OVER_PACKETS)
    [primitive] = primitives_of(told.record, operations_of(told.events).all).values()
    assert (primitive.effective_bytes, primitive.problem) == (1_190_000, "")
