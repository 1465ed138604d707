"""The twin server moves its mirror on in time, on loops whose clock is not the twin's."""

import asyncio

import pytest
from typing_extensions import override

from hwd_drivers.core.clock import Clock, ShiftedClock, SystemClock
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.devices.registry import find
from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.mirror import Mirror
from hwd_drivers.twins.server import UNREAD_LIMIT_BYTES, TwinServer, TwinSession
from hwd_drivers.twins.timing import find_timing
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual


class Echo(TwinSession):
    @override
    def data_received(self, data: bytes) -> None:
        self.reply(data, delay_s=0.01)


def make_server(clock: Clock, *, dialer: MemoryDialer | TcpDialer, address: str, timing: str) -> TwinServer:
    capabilities = find("polatis-tl1").capabilities("polatis-6000", "8x8")
    mirror = Mirror(name="ocs1", capabilities=capabilities, timing=find_timing(timing), draws=Draws(7))
    return TwinServer(mirror=mirror, clock=clock, dialer=dialer, address=address, make_session=Echo)


def virtual_clock() -> VirtualClock:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return VirtualClock(loop, wall_start_ns=0)


@pytest.mark.parametrize("drift_ppm", [-500.0, 0.0, 500.0])
def test_a_path_is_tuned_when_its_time_has_come_on_the_twins_clock(drift_ppm: float) -> None:
    async def main() -> None:
        clock = ShiftedClock(virtual_clock(), offset_s=5, drift_ppm=drift_ppm)
        server = make_server(clock, dialer=MemoryDialer(MemoryNet()), address="mem:ocs1", timing="polatis-opus")
        await server.start()
        told: list[int] = []
        server.mirror.on_change.append(told.append)
        server.mirror.connect([Crossconnect.parse("1A-2B")], clock.monotonic_ns(), move=True)
        due_ns = server.mirror.next_ns()
        assert due_ns is not None
        await asyncio.sleep(1)
        assert server.mirror.next_ns() is None
        assert 0 <= told[-1] - due_ns <= 100_000
        await server.close()

    run_virtual(main())


async def test_a_path_is_tuned_in_real_time() -> None:
    clock = SystemClock()
    server = make_server(clock, dialer=TcpDialer(), address="127.0.0.1:0", timing="lowradix-8ms")
    await server.start()
    tuned = asyncio.Event()
    server.mirror.connect([Crossconnect.parse("1A-2B")], clock.monotonic_ns(), move=True)
    server.mirror.on_change.append(lambda now_ns: tuned.set())
    await asyncio.wait_for(tuned.wait(), 5)
    await server.close()


def test_answers_on_their_way_die_with_their_session() -> None:
    async def main() -> None:
        dialer = MemoryDialer(MemoryNet())
        server = make_server(virtual_clock(), dialer=dialer, address="mem:ocs1", timing="ideal")
        await server.start()
        transport, _ = await dialer.connect(asyncio.Protocol, "mem:ocs1")
        transport.write(b"x")
        await asyncio.sleep(0.005)
        server.faults.reset()
        await asyncio.sleep(0.1)
        assert server.sessions == []
        await server.close()
        await server.close()

    run_virtual(main())


def test_a_client_that_reads_nothing_is_cut_when_too_much_waits_for_it() -> None:
    class Deaf(asyncio.Protocol):
        lost = False

        @override
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            transport.pause_reading()

        @override
        def connection_lost(self, exc: Exception | None) -> None:
            self.lost = True

    async def main() -> None:
        dialer = MemoryDialer(MemoryNet())
        server = make_server(virtual_clock(), dialer=dialer, address="mem:ocs1", timing="ideal")
        await server.start()
        transport, deaf = await dialer.connect(Deaf, "mem:ocs1")
        part = bytes(1 << 20)
        for sent_bytes in range(0, UNREAD_LIMIT_BYTES, len(part)):
            assert not deaf.lost, f"cut at {sent_bytes} bytes"
            transport.write(part)
            await asyncio.sleep(0.02)
        for _ in range(3):  # what is in flight does not count
            transport.write(part)
            await asyncio.sleep(0.02)
        assert server.sessions == []
        transport.abort()
        await server.close()

    run_virtual(main())
