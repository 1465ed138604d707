"""Moves of collectives between ranks, each with a thread of its own, over addresses of the loopback."""

import asyncio
import itertools
import socket
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, TypeVar

import pytest

from hwd_agents.mfabric import Circuit, Phase, RoutingTable, all_reduce_steps, all_to_all_moves, routing_table
from hwd_agents.shim.exchange import Exchange
from hwd_agents.wire import RankPlace
from hwd_drivers.core.errors import ConfigError, DeadlineError, LinkError
from hwd_drivers.core.offload import ThreadOffload

R = TypeVar("R")
ELEMENT_BYTES = 8
LINKS = ["h0.eth0<->h1.eth1", "h0.eth1<->h1.eth0", "h1.eth2<->h2.eth0"]
"""h0 and h2 have the packet switch alone."""
ELEMENTS = {(one, other): (7 * one + 3 * other) % 11 for one in range(6) for other in range(6)}


def places(hosts: int = 3, gpus: int = 2, electrical: int = 1) -> list[RankPlace]:
    """Each rank has two optical ports."""
    return [
        RankPlace(
            host=f"h{host}",
            gpu=gpu,
            optical={f"eth{2 * gpu + port}": f"127.1.{host}.{2 * gpu + port + 1}" for port in range(2)},
            electrical={f"ele{port}": f"127.5.{port}.{host + 1}" for port in range(electrical)},
        )
        for host in range(hosts)
        for gpu in range(gpus)
    ]


def free_port(ranks: int) -> int:
    """The first of so many that nobody listens at."""
    while True:
        with ExitStack() as stack:
            first = stack.enter_context(socket.create_server(("", 0))).getsockname()[1]
            try:
                for number in range(1, ranks):
                    stack.enter_context(socket.create_server(("", first + number)))
            except OSError:
                continue
        return int(first)


@pytest.fixture
def exchanges() -> Iterator[Callable[[Sequence[RankPlace]], list[Exchange]]]:
    with ExitStack() as stack:

        def make(places: Sequence[RankPlace]) -> list[Exchange]:
            port = free_port(len(places))
            return [stack.enter_context(Exchange(n, places, port=port)) for n in range(len(places))]

        yield make


@pytest.fixture
def ranks(exchanges: Callable[[Sequence[RankPlace]], list[Exchange]]) -> list[Exchange]:
    return exchanges(places())


async def all_at_once(work: Callable[[int], R], ranks: int) -> list[R]:
    """What each rank returns; raises the first error."""
    threads = ThreadOffload(ranks)
    try:
        return await asyncio.gather(*(threads(work, number) for number in range(ranks)))
    finally:
        threads.close()


def payload(source: int, destination: int) -> bytes:
    count = ELEMENTS[source, destination]
    return b"".join((source * 10_000 + destination * 100 + n).to_bytes(ELEMENT_BYTES) for n in range(count))


async def exchanged(ranks: list[Exchange], table: RoutingTable) -> None:
    moves = all_to_all_moves(table, ELEMENTS)
    sent = [{other: payload(one, other) for other in range(6)} for one in range(6)]

    def work(number: int) -> dict[int, bytearray]:
        return ranks[number].all_to_all(moves, sent[number], element_bytes=ELEMENT_BYTES, within_s=20)

    for number, came in enumerate(await all_at_once(work, 6)):
        for source in range(6):
            assert bytes(came.get(source, b"")) == payload(source, number), (source, number)


async def test_all_to_all_brings_what_each_has_for_each_over_any_light(ranks: list[Exchange]) -> None:
    first = ranks[0]
    assert first.servers.ranks == ((0, 1), (2, 3), (4, 5))
    assert first.servers.eps == ((0,), (2,), (4,))
    table = routing_table(first.servers, first.circuits(LINKS))
    await exchanged(ranks, table)
    await exchanged(ranks, routing_table(first.servers, []))
    for row in (one for one in table.rows if isinstance(one.over, Circuit)):
        await exchanged(ranks, table.without(row))


async def test_each_move_goes_from_the_address_of_its_port_to_that_of_the_other(
    ranks: list[Exchange], monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = set[tuple[str, str]]()

    class Seen(socket.socket):
        def connect(self, address: Any) -> None:
            super().connect(address)
            ways.add((self.getsockname()[0], address[0]))

    monkeypatch.setattr(socket, "socket", Seen)
    await exchanged(ranks, routing_table(ranks[0].servers, ranks[0].circuits(LINKS)))
    light = {("127.1.0.1", "127.1.1.2"), ("127.1.0.2", "127.1.1.1"), ("127.1.1.3", "127.1.2.1")}
    both = light | {(far, near) for near, far in light}
    packets = {("127.5.0.1", "127.5.0.3"), ("127.5.0.3", "127.5.0.1")}
    assert ways == both | packets | {("127.0.0.1", "127.0.0.1")}


@pytest.mark.parametrize("electrical", [1, 2])
async def test_all_reduce_adds_in_the_same_order_at_all(
    exchanges: Callable[[Sequence[RankPlace]], list[Exchange]], electrical: int
) -> None:
    ranks = exchanges(places(electrical=electrical))
    vectors = [array("d", [0.1 * number + n / 7 for n in range(33)]) for number in range(6)]
    total = [sum(one[n] for one in vectors) for n in range(33)]
    steps = all_reduce_steps(ranks[0].servers, 33)

    def add(into: memoryview, came: bytes) -> None:
        view = into.cast("d")
        for n, value in enumerate(array("d", came)):
            view[n] += value

    def work(number: int) -> None:
        view = memoryview(vectors[number]).cast("B")
        ranks[number].all_reduce(steps, view, element_bytes=8, add=add, within_s=20)

    await all_at_once(work, 6)
    assert list(vectors[0]) == pytest.approx(total)
    assert all(bytes(one) == bytes(other) for one, other in itertools.pairwise(vectors))


def exchange_of_two(ranks: list[Exchange], number: int, turn: int, *, within_s: float = 20) -> bytes:
    """Ranks 0 and 2 send each other the number of the turn."""
    moves = all_to_all_moves(routing_table(ranks[0].servers, []), {(0, 2): 1, (2, 0): 1})
    sent = {2 - number: turn.to_bytes(8)}
    return bytes(ranks[number].all_to_all(moves, sent, element_bytes=8, within_s=within_s)[2 - number])


async def test_collectives_follow_each_other_and_one_that_failed_leaves_nothing_for_the_next(
    ranks: list[Exchange],
) -> None:
    with pytest.raises(DeadlineError):  # the other one is late
        exchange_of_two(ranks, 0, 0, within_s=0.1)

    def first() -> bytes:
        return exchange_of_two(ranks, 0, 1)

    def second() -> list[bytes]:
        before = exchange_of_two(ranks, 2, 0)  # what was sent for it is there
        return [before, exchange_of_two(ranks, 2, 1)]

    one, other = await all_at_once(lambda number: second() if number else first(), 2)
    assert (one, other) == ((1).to_bytes(8), [(0).to_bytes(8), (1).to_bytes(8)])

    def more(number: int) -> list[bytes]:
        return [exchange_of_two(ranks, 2 * number, turn) for turn in range(2, 5)]

    assert await all_at_once(more, 2) == [[turn.to_bytes(8) for turn in range(2, 5)]] * 2


def test_what_cannot_be_sent_is_why_nothing_comes(ranks: list[Exchange]) -> None:
    ranks[2].close()
    with pytest.raises(LinkError, match=r"rank 0: cannot send to rank 2 from 127\.5\.0\.1 to 127\.5\.0\.2"):
        exchange_of_two(ranks, 0, 0, within_s=0.3)


async def test_connection_that_is_lost_as_it_comes_or_cut_off_or_brings_no_move_does_not_end_the_exchange(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures = {
        "accept": [OSError(113, "No route to host")],
        "makefile": [OSError(104, "Connection reset by peer")] * 2,
    }
    for name, errors in failures.items():
        method = getattr(socket.socket, name)

        def failing(one: socket.socket, *more: Any, method: Any = method, errors: list[OSError] = errors) -> Any:
            if errors:
                raise errors.pop()
            return method(one, *more)

        monkeypatch.setattr(socket.socket, name, failing)
    port = free_port(6)
    with ExitStack() as stack:
        ranks = [stack.enter_context(Exchange(n, places(), port=port)) for n in range(6)]
        await exchanged(ranks, routing_table(ranks[0].servers, []))
        assert failures == {"accept": [], "makefile": []}
        for data in (b"", b"GET / HTTP/1.1\r\n\r\n", bytes(20)):
            with socket.create_connection(("127.0.0.1", port + 2)) as peer:
                peer.sendall(data)
        await exchanged(ranks, routing_table(ranks[0].servers, []))


def test_moves_of_another_job_are_not_taken() -> None:
    port = free_port(6)
    with ExitStack() as stack:
        ranks = [stack.enter_context(Exchange(n, places(), job=b"mine", port=port)) for n in range(3)]
        moves = all_to_all_moves(routing_table(ranks[0].servers, []), {(0, 2): 1})
        with socket.create_connection(("127.0.0.1", port + 2)) as peer:
            peer.sendall(bytes(32) + (1).to_bytes(8) + (2).to_bytes(4) + bytes(8) + (8).to_bytes(8) + bytes(8))
            assert peer.recv(1) == b""
        with pytest.raises(DeadlineError):
            ranks[2].all_to_all(moves, {}, element_bytes=8, within_s=0.2)


def test_rank_that_does_not_send_is_named_and_less_than_is_to_be_sent_is_refused(ranks: list[Exchange]) -> None:
    moves = all_to_all_moves(routing_table(ranks[0].servers, []), {(2, 0): 1})
    with pytest.raises(DeadlineError, match=r"rank 0: nothing came of 2->0 over eps: 1 in time"):
        ranks[0].all_to_all(moves, {}, element_bytes=8, within_s=0.1)
    more: dict[Phase, Any] = dict(all_to_all_moves(routing_table(ranks[0].servers, []), {(0, 2): 2}))
    with pytest.raises(ConfigError, match="rank 0: has 8 bytes for rank 2, and elements from 0 on, 2 of 8 bytes"):
        ranks[0].all_to_all(more, {2: bytes(8)}, element_bytes=8)


def test_wrong_ranks_and_taken_ports_are_refused_and_links_of_other_hosts_left_out(ranks: list[Exchange]) -> None:
    with pytest.raises(ConfigError, match="rank 6: there are 6 ranks"):
        Exchange(6, places())
    with socket.create_server(("", 0)) as taken, pytest.raises(LinkError, match="rank 0: cannot listen at port"):
        Exchange(0, places(), port=taken.getsockname()[1])
    [(near, far)] = ranks[0].circuits(["h0.eth2<->h2.eth0", "h0.eth0<->h7.eth0"])
    assert (near.rank, near.name, far.rank, far.name) == (1, "eth2", 4, "eth0")
