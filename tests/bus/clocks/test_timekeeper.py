"""The timekeeper in virtual time, with an agent whose clock is moved by a known amount, and ways to it that are slow,
lopsided, lossy or shut.
"""

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any, Self

import msgspec
import pytest

from hwd.bus.allowance import Allowance
from hwd.bus.clocks.clock_udp import ClockUdp
from hwd.bus.clocks.timekeeper import Timekeeper
from hwd.bus.host_agent import HostAgent
from hwd.model.host import ClockStepped
from hwd.timeline.alignment import Alignment
from hwd_agents.wire import ClockNote, ClockReply, ClockRequest, Inventory, Reply
from hwd_agents.wire import ClockUdp as Place
from hwd_drivers.core.clock import ShiftedClock
from hwd_drivers.core.documents import Fact
from hwd_drivers.core.ids import SeededIds
from hwd_drivers.core.structs import from_plain
from hwd_drivers.twins.virtual_time import VirtualClock

from ...agents.wire import golden
from ...virtual_time import running_loop

BOOT = "boot-1"
S, MS, US = 1_000_000_000, 1_000_000, 1_000


class Scene:
    """`way_s` gives how long the next message is under way, None where it is lost."""

    def __init__(self, place: Place | None = None) -> None:
        self.loop = running_loop()
        self.clock = VirtualClock(self.loop, wall_start_ns=0)
        self.agent = ShiftedClock(self.clock, offset_s=5, drift_ppm=50)
        self.told: list[Fact] = []
        self.alignment: Alignment | None = None
        self.there_s: Callable[[], float | None] = lambda: 100e-6
        self.back_s: Callable[[], float | None] = lambda: 100e-6
        allowance = Allowance("h0", lambda limit, detail: None)
        self.host = HostAgent("h0", self.told.append, lambda cause: None, allowance, {})
        udp = ClockUdp(clock=self.clock, ids=SeededIds(1), reject=lambda why: None)
        self.keeper = Timekeeper(
            self.host,
            clock=self.clock,
            is_up=lambda: True,
            send=self._send,
            aligned=self._aligned,
            emit=self.told.append,
            udp=None if place is None else udp,
        )
        clocks = ClockNote(udp=place, why_not_udp="", wall=None)
        birth = msgspec.structs.replace(golden.birth(Inventory()), boot=BOOT, clocks=clocks)
        self.host.take_birth(birth, 0.0)
        self.host.alive(0.0)

    async def __aenter__(self) -> Self:
        self._life = asyncio.create_task(self.keeper.run())
        return self

    async def __aexit__(self, *error: object) -> None:
        self._life.cancel()
        await asyncio.gather(self._life, return_exceptions=True)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [fact.to_data() for fact in self.told if fact.document_kind == kind]

    def error(self) -> tuple[int, int]:
        """How far what is said of now is from the truth, and what the bound is."""
        assert self.alignment is not None
        mid_ns, error_ns = self.alignment.to_daemon(self.agent.monotonic_ns())
        return abs(mid_ns - self.clock.monotonic_ns()), error_ns

    def _aligned(self, alignment: Alignment) -> None:
        self.alignment = alignment

    async def _send(self, request: ClockRequest) -> bool:
        if (delay_s := self.there_s()) is not None:
            self.loop.call_later(delay_s, self._come, request)
        return True

    def _come(self, request: ClockRequest) -> None:
        t2_ns = self.agent.monotonic_ns()
        self.loop.call_later(50e-6, self._answer, request, t2_ns)

    def _answer(self, request: ClockRequest, t2_ns: int) -> None:
        reply = ClockReply(
            boot=BOOT, seq=1, id=request.id, t1_ns=request.t1_ns, t2_ns=t2_ns, t3_ns=self.agent.monotonic_ns()
        )
        if (delay_s := self.back_s()) is not None:
            self.loop.call_later(delay_s, self._take, reply)

    def _take(self, reply: ClockReply) -> None:
        assert self.host.exchange is not None
        if self.host.exchange.take(reply, self.clock.monotonic_ns()):
            self.host.alive(self.loop.time())


@pytest.fixture
async def scene(virtual_time: None) -> AsyncIterator[Scene]:
    async with Scene() as scene:
        yield scene


async def test_the_bound_is_true_for_twenty_minutes_of_lossy_lopsided_delays_that_change_with_load(
    scene: Scene,
) -> None:
    draws = random.Random(5)

    def delay_s(least_s: float) -> float | None:
        if draws.random() < 0.2:
            return None
        loaded = int(scene.loop.time() / 120) % 2  # two minutes quiet, two minutes loaded
        spike_s = draws.expovariate(1 / 0.03) if draws.random() < 0.05 + 0.3 * loaded else 0.0
        return least_s + draws.expovariate(1 / (80e-6 + 400e-6 * loaded)) + spike_s

    scene.there_s, scene.back_s = lambda: delay_s(60e-6), lambda: delay_s(400e-6)
    await asyncio.sleep(5)
    found = []
    for _ in range(1200):
        await asyncio.sleep(draws.uniform(0.5, 1.5))
        found.append(scene.error())
    assert scene.of("clock.stepped") == []
    assert all(error_ns <= bound_ns for error_ns, bound_ns in found)
    errors = sorted(error_ns for error_ns, _ in found)
    assert errors[len(errors) * 99 // 100] <= 400 * US
    assert sorted(bound_ns for _, bound_ns in found)[len(found) // 2] <= 600 * US


async def test_a_clock_that_steps_or_stood_still_is_found_marked_and_aligned_anew(scene: Scene) -> None:
    await asyncio.sleep(20)
    stepped_ns = scene.clock.monotonic_ns()
    scene.agent.step_to(3600)
    await asyncio.sleep(10)
    (data,) = scene.of("clock.stepped")
    step = from_plain(data, ClockStepped)
    assert (data["host"], data["boot"]) == ("h0", BOOT)
    assert abs(step.by_ns - 3600 * S) <= step.error_ns <= MS
    assert step.earliest_ns <= stepped_ns <= step.latest_ns <= stepped_ns + 4 * S
    error_ns, bound_ns = scene.error()
    assert error_ns <= bound_ns <= MS
    assert [data["stepped"] for data in scene.of("clock.aligned")].count(True) == 1
    scene.agent.step_to(3600 - 0.05)  # as CLOCK_MONOTONIC_RAW of a machine that was suspended or moved
    await asyncio.sleep(4)
    _, data = scene.of("clock.stepped")
    assert abs(data["by_ns"] + 50 * MS) <= data["error_ns"]
    assert str(from_plain(data, ClockStepped)).startswith("its clock was stepped by -0.0")


async def test_a_reply_with_a_time_that_cannot_be_finds_the_step_at_once(scene: Scene) -> None:
    await asyncio.sleep(30)
    asked_ns = scene.clock.monotonic_ns()

    def reply() -> Reply:
        return Reply(boot=BOOT, seq=1, id="1", outcome="done", at_ns=scene.agent.monotonic_ns())

    assert not await scene.keeper.check(reply(), since_ns=asked_ns)
    scene.agent.step_to(2)
    began_s = scene.loop.time()
    assert await scene.keeper.check(reply(), since_ns=asked_ns)
    assert scene.loop.time() - began_s < 0.2
    assert len(scene.of("clock.stepped")) == 1


async def test_an_event_that_the_clock_cannot_have_stamped_has_it_looked_at(scene: Scene) -> None:
    for by_s in (2, -3600):
        await asyncio.sleep(30)
        scene.keeper.see(scene.agent.monotonic_ns(), now_ns=scene.clock.monotonic_ns())
        await asyncio.sleep(0.5)
        assert len(scene.of("clock.stepped")) == (0 if by_s == 2 else 1)
        scene.agent.step_to(by_s)
        scene.keeper.see(scene.agent.monotonic_ns(), now_ns=scene.clock.monotonic_ns())
        await asyncio.sleep(0.1)
    assert len(scene.of("clock.stepped")) == 2


async def test_where_nobody_answers_by_udp_the_broker_is_the_way_and_it_is_said(virtual_time: None) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        number = silent.getsockname()[1]
        async with Scene(Place(address="127.0.0.1", port=number, key="k" * 32)) as scene:
            await asyncio.sleep(120)
            told = scene.of("clock.aligned")
            assert {data["via"] for data in told} == {"broker"}
            assert told[-1]["why_not_udp"].startswith(f"no answer from 127.0.0.1 port {number} by UDP")
            error_ns, bound_ns = scene.error()
            assert error_ns <= bound_ns <= 200 * US
        tries = 0
        silent.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while silent.recv(512):
                tries += 1
        assert 3 <= tries <= 9
