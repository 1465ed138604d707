"""The twin server moves its mirror on in time, on loops whose clock is not the twin's."""

import asyncio

import pytest
from typing_extensions import override

from hwd_drivers.core.clock import Clock, ShiftedClock
from hwd_drivers.core.ids import Draws
from hwd_drivers.transports.dial import Dialer
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.mirror import Mirror
from hwd_drivers.twins.server import UNREAD_LIMIT_BYTES, TwinServer, TwinSession
from hwd_drivers.twins.timing import find_timing
from hwd_drivers.twins.virtual_time import VirtualClock

from ..parts import Recorder, capabilities, pairs, square


class Echo(TwinSession):
    @override
    def data_received(self, data: bytes) -> None:
        self.reply(data, delay_s=0.01)


def make_server(clock: Clock, dialer: Dialer, *, address: str = "mem:ocs1", timing: str = "ideal") -> TwinServer:
    switch = capabilities(square(8))
    optics = Mirror(name="ocs1", capabilities=switch, timing=find_timing(timing), draws=Draws(7))
    return TwinServer(mirror=optics, clock=clock, dialer=dialer, address=address, make_session=Echo)


@pytest.mark.parametrize("drift_ppm", [-500.0, 0.0, 500.0])
async def test_a_path_is_tuned_when_its_time_has_come_on_the_twins_clock(clock: VirtualClock, drift_ppm: float) -> None:
    shifted = ShiftedClock(clock, offset_s=5, drift_ppm=drift_ppm)
    server = make_server(shifted, MemoryDialer(MemoryNet()), timing="polatis-opus")
    await server.start()
    told: list[int] = []
    server.mirror.on_change.append(told.append)
    server.mirror.connect(pairs("1A-2B"), shifted.monotonic_ns(), move=True)
    due_ns = server.mirror.next_ns()
    assert due_ns is not None
    await asyncio.sleep(1)
    assert server.mirror.next_ns() is None
    assert 0 <= told[-1] - due_ns <= 100_000
    await server.close()


async def test_answers_on_their_way_die_with_their_session(clock: VirtualClock) -> None:
    dialer = MemoryDialer(MemoryNet())
    server = make_server(clock, dialer)
    await server.start()
    transport, _ = await dialer.connect(asyncio.Protocol, "mem:ocs1")
    transport.write(b"x")
    await asyncio.sleep(0.005)
    server.faults.reset()
    await asyncio.sleep(0.1)
    assert server.sessions == []
    await server.close()
    await server.close()


async def test_a_client_that_reads_nothing_is_cut_when_too_much_waits_for_it(clock: VirtualClock) -> None:
    dialer = MemoryDialer(MemoryNet())
    server = make_server(clock, dialer)
    await server.start()
    transport, deaf = await dialer.connect(Recorder, "mem:ocs1")
    transport.pause_reading()
    part = bytes(1 << 20)
    for sent_bytes in range(0, UNREAD_LIMIT_BYTES, len(part)):
        assert not deaf.lost_with, f"cut at {sent_bytes} bytes"
        transport.write(part)
        await asyncio.sleep(0.02)
    for _ in range(3):  # what is in flight does not count
        transport.write(part)
        await asyncio.sleep(0.02)
    assert server.sessions == []
    transport.abort()
    await server.close()
