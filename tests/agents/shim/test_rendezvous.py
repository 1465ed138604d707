"""Ranks that meet at rank 0 over packet switches: here over addresses of loopback."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest

from hwd_agents.shim import Rank
from hwd_agents.shim.rendezvous import meet
from hwd_drivers.core.errors import ConfigError, DeadlineError, LinkError
from hwd_drivers.core.offload import ThreadOffload

from ..played_daemon import JOB, HostWithDaemon


@pytest.fixture
def port() -> int:
    """One at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found: int = listener.getsockname()[1]
    return found


@pytest.fixture
async def threads() -> AsyncIterator[ThreadOffload]:
    offload = ThreadOffload(3)
    yield offload
    offload.close()


class Job:
    """The ranks of a job, which leave at the end of the test."""

    def __init__(self, host: HostWithDaemon, threads: ThreadOffload) -> None:
        self.ranks: list[Rank] = []
        self._host = host
        self._threads = threads

    async def join(self, *addresses: str) -> list[Rank]:
        """All ranks with these addresses on packet switches, empty for a rank that is on none."""
        places: list[dict[str, Any]] = [
            {"host": f"h{at}", "electrical": {f"eth{at}": address} if address else {}}
            for at, address in enumerate(addresses)
        ]
        self._host.reactions["join-job"] = lambda ask: {"ranks": places, "groups": {}}
        for at in range(len(addresses)):
            rank = partial(Rank, job=JOB["job"], number=at, key=JOB["key"], path=str(self._host.path), away_s=5.0)
            self.ranks.append(await self._threads(rank))
        return self.ranks


@pytest.fixture
def job(host: HostWithDaemon, threads: ThreadOffload) -> Iterator[Job]:
    job = Job(host, threads)
    yield job
    for rank in job.ranks:
        rank.close()


async def test_ranks_that_meet_wait_for_all_of_them(job: Job, threads: ThreadOffload, port: int) -> None:
    ranks = await job.join("127.0.0.1", "127.0.0.2", "127.0.0.3")
    first = [asyncio.ensure_future(threads(partial(meet, rank, port=port, within_s=20))) for rank in ranks[1:]]
    await asyncio.wait(first, timeout=0.3)
    assert not any(one.done() for one in first), "rank 0 does not listen yet"
    await threads(partial(meet, ranks[0], port=port, within_s=20))
    await asyncio.gather(*first)


async def opened(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to a rank that may not listen yet."""
    while True:
        try:
            return await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.02)


async def test_stranger_who_guesses_the_number_of_a_rank_does_not_meet_for_it(
    job: Job, threads: ThreadOffload, port: int
) -> None:
    ranks = await job.join("127.0.0.1", "127.0.0.2")
    meeting = asyncio.ensure_future(threads(partial(meet, ranks[0], port=port, within_s=2)))
    strangers = []
    for says in (b"1\n", b"1 guess\n", f"1 {ranks[0].proof(0)}\n".encode()):
        _, writer = await opened(port)
        writer.write(says)
        strangers.append(writer)
    with pytest.raises(DeadlineError, match="rank 1 on h1: did not come"):
        await meeting
    for writer in strangers:
        writer.close()


async def test_rank_that_rank_0_does_not_hear_says_from_where_to_where_it_tried(
    job: Job, threads: ThreadOffload, port: int
) -> None:
    ranks = await job.join("127.0.0.1", "127.0.0.2")
    words = (
        f"rank 1 on h1: cannot meet rank 0 on h0: from 127.0.0.2 (eth1) to 127.0.0.1:{port} (eth0) within 0.2 s: "
        "Connection refused. Look at the fibres from these two ports to their packet switch"
    )
    with pytest.raises(LinkError, match=f"^{re.escape(words)}$"):
        await threads(partial(meet, ranks[1], port=port, within_s=0.2))


async def test_rank_0_names_the_ranks_that_did_not_come_and_those_that_came_do_too(
    job: Job, threads: ThreadOffload, port: int
) -> None:
    ranks = await job.join("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4")
    came = asyncio.ensure_future(threads(partial(meet, ranks[2], port=port, within_s=0.9)))
    words = f"rank 1 on h1, rank 3 on h3: did not come to rank 0 at 127.0.0.1:{port} within 1 s"
    with pytest.raises(DeadlineError, match=f"^{re.escape(words)}$"):
        await threads(partial(meet, ranks[0], port=port, within_s=1.0))
    with pytest.raises(DeadlineError, match=f"^rank 2 on h2: {re.escape(words)}$"):
        await came


@pytest.mark.parametrize(("addresses", "who"), [(("", "127.0.0.2"), 0), (("127.0.0.1", ""), 1)])
async def test_rank_on_no_packet_switch_cannot_meet_the_others(job: Job, addresses: tuple[str, ...], who: int) -> None:
    ranks = await job.join(*addresses)
    with pytest.raises(ConfigError, match=f"^rank {who} on h{who}: has no address on a packet switch"):
        meet(ranks[1])


async def test_place_of_rank_0_that_is_taken_is_named(job: Job) -> None:
    ranks = await job.join("127.0.0.1", "127.0.0.2")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(LinkError, match=rf"^rank 0 on h0: the rendezvous at 127\.0\.0\.1:{port}: "):
            meet(ranks[0], port=port, within_s=1.0)


async def test_rank_comes_from_its_own_port_on_a_packet_switch(job: Job, threads: ThreadOffload) -> None:
    came: list[tuple[str, bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append((writer.get_extra_info("peername")[0], await reader.readline()))
        writer.write(b"\n")
        writer.close()

    ranks = await job.join("127.0.0.1", "127.0.0.2")
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as rank_0:
        port = rank_0.sockets[0].getsockname()[1]
        await threads(partial(meet, ranks[1], port=port, within_s=20))
    assert came == [("127.0.0.2", f"1 {ranks[0].proof(1)}\n".encode())]
