"""The exchange by UDP, over the loopback of this machine, with the stamps of its kernel; the agent's clock is moved by
a known amount.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable

import pytest

from hwd.bus.clocks.clock_exchange import ClockExchange
from hwd.bus.clocks.clock_udp import ClockUdp
from hwd_agents.clock import datagram as clock_wire
from hwd_agents.clock.clock_port import ClockPort
from hwd_agents.wire import ClockUdp as Place
from hwd_drivers.core.clock import ShiftedClock, SystemClock
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.ids import RandomIds

KEY = "k" * 32
WITHIN_S = 10.0
MS = 1_000_000


class Pair:
    """An agent's port and the daemon's side of it.

    `heard` and `said` are the datagrams at the agent's door, where `between` may change the second.
    """

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.shifted = ShiftedClock(self.clock, offset_s=5, drift_ppm=50)
        self.port = ClockPort(self.shifted, key=KEY, broker=lambda: None)
        self.garbage: list[str] = []
        self.udp = ClockUdp(clock=self.clock, ids=RandomIds(), reject=self._note)
        self.exchange = ClockExchange("boot")
        self._noted = asyncio.Event()

    def _note(self, why: str) -> None:
        self.garbage.append(why)
        self._noted.set()

    async def ask(self) -> None:
        assert self.udp.ask(self.exchange) is not None
        async with asyncio.timeout(WITHIN_S):
            await self.exchange.answered.wait()

    async def noted(self) -> str:
        async with asyncio.timeout(WITHIN_S):
            await self._noted.wait()
        self._noted.clear()
        return self.garbage[-1]


@pytest.fixture
async def one() -> AsyncIterator[Pair]:
    """Their clocks 5 s apart."""
    one = Pair()
    await one.port.listen_towards_broker()
    assert one.port.why_not == ""
    one.udp.aim(one.port.udp, "")
    try:
        yield one
    finally:
        one.udp.close()
        one.port.close()


class Between:
    """A relay between the daemon's socket and the agent's port that delays, drops or repeats datagrams."""

    def __init__(self, target: Place) -> None:
        self.inner = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.inner.connect((target.address, target.port))
        self.outer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.outer.bind(("127.0.0.1", 0))
        self.place = Place(address="127.0.0.1", port=self.outer.getsockname()[1], key=target.key)
        self.answers: list[bytes] = []
        self.back: Callable[[bytes], list[bytes]] = lambda answer: [answer]
        self._peer: tuple[str, int] = ("127.0.0.1", 9)
        for one, read in ((self.inner, self._from_agent), (self.outer, self._from_daemon)):
            one.setblocking(False)
            asyncio.get_running_loop().add_reader(one, read)

    def _from_daemon(self) -> None:
        datagram, self._peer = self.outer.recvfrom(512)
        self.inner.send(datagram)

    def _from_agent(self) -> None:
        answer = self.inner.recv(512)
        self.answers.append(answer)
        for each in self.back(answer):
            self.say(each)

    def say(self, datagram: bytes) -> None:
        self.outer.sendto(datagram, self._peer)

    def close(self) -> None:
        for one in (self.inner, self.outer):
            asyncio.get_running_loop().remove_reader(one)
            one.close()


@pytest.fixture
async def middle(one: Pair) -> AsyncIterator[Between]:
    assert one.port.udp is not None
    middle = Between(one.port.udp)
    one.udp.aim(middle.place, "")
    try:
        yield middle
    finally:
        middle.close()


def truth_is_within(one: Pair, *, most_ns: int) -> None:
    alignment = one.exchange.alignment
    assert alignment is not None
    agent_ns = one.shifted.monotonic_ns()
    mid_ns, error_ns = alignment.to_daemon(agent_ns)
    assert abs(mid_ns - one.shifted.to_inner_ns(agent_ns)) <= error_ns <= most_ns


async def test_clocks_are_aligned_within_a_bound_that_holds_by_stamps_of_the_kernel(one: Pair) -> None:
    for _ in range(30):
        await one.ask()
    truth_is_within(one, most_ns=2 * MS)
    assert one.garbage == []
    assert one.exchange.aligner.steps == 0


async def test_a_process_that_gets_no_turn_makes_the_bound_no_wider(one: Pair) -> None:
    await one.ask()  # by then the kernel makes stamps
    one.exchange = ClockExchange("boot")
    for _ in range(8):
        one.udp.ask(one.exchange)
        busy_until_ns = one.clock.monotonic_ns() + 20 * MS
        while one.clock.monotonic_ns() < busy_until_ns:  # the request lies at the agent's socket meanwhile
            pass
        async with asyncio.timeout(WITHIN_S):
            await one.exchange.answered.wait()
    truth_is_within(one, most_ns=5 * MS)


async def test_an_answer_that_was_tampered_with_or_comes_twice_or_to_an_earlier_request_tells_nothing(
    one: Pair, middle: Between
) -> None:
    for _ in range(10):
        await one.ask()
    middle.back = lambda answer: [answer, answer]
    await one.ask()
    assert "late or repeated" in await one.noted()
    middle.back = lambda answer: [answer[:40] + bytes([answer[40] ^ 1]) + answer[41:]]
    one.udp.ask(one.exchange)
    assert "without the key" in await one.noted()
    middle.back = lambda answer: []
    one.udp.ask(one.exchange)
    middle.say(middle.answers[0])
    assert "late or repeated" in await one.noted()
    assert one.exchange.aligner.steps == 0
    truth_is_within(one, most_ns=20 * MS)


async def test_a_request_without_the_key_is_not_answered_and_counted(one: Pair) -> None:
    place = one.port.udp
    assert place is not None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.setblocking(False)
        stranger.connect((place.address, place.port))
        stranger.send(clock_wire.encode(clock_wire.Request(nonce=b"n" * 16), "x" * 32))
        stranger.send(b"\0" * 2000)
        await one.ask()  # it came after the stranger's
        assert one.port.refused == 2
        with pytest.raises(BlockingIOError):
            stranger.recv(512)


async def test_a_port_that_is_taken_and_a_broker_of_unknown_address_are_said_and_the_agent_lives() -> None:
    def broker() -> tuple[str, int] | None:
        raise ConfigError("daemon.json: cannot read the broker's address")

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        number = other.getsockname()[1]
        port = ClockPort(SystemClock(), key=KEY, broker=lambda: None, number=number)
        await port.listen_towards_broker()
        assert port.udp is None
        assert port.why_not == f"cannot listen at 127.0.0.1 port {number}: Address already in use"
    port = ClockPort(SystemClock(), key=KEY, broker=broker)
    await port.listen_towards_broker()
    assert port.why_not == "no way to the broker is known: daemon.json: cannot read the broker's address"


async def test_the_port_stays_the_same_when_the_broker_is_reached_again(one: Pair) -> None:
    first = one.port.udp
    await one.port.listen_towards_broker()
    assert one.port.udp == first
