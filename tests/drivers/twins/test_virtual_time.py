"""Hours pass in milliseconds, and every run is the same."""

import asyncio
import itertools
import random
import socket
import subprocess
import sys

import pytest

from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.twins.virtual_time import Deadlock, VirtualClock, VirtualLoop, run_virtual

pytestmark = pytest.mark.usefixtures("virtual_time")


def test_time_jumps_to_the_next_timer_exactly() -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        seen = [loop.time()]
        for pause_s in (0.1, 0.1, 0.1, 86_400 * 30, 0.1, 0.0):
            await asyncio.sleep(pause_s)
            seen.append(loop.time())
        return seen

    assert run_virtual(main()) == [0, 0.1, 0.2, 0.3, 2_592_000.3, 2_592_000.4, 2_592_000.4]


def test_timers_fire_in_their_order() -> None:
    async def main() -> list[int]:
        order: list[int] = []

        async def late(s: int) -> None:
            await asyncio.sleep(s)
            order.append(s)

        async with asyncio.TaskGroup() as group:
            for s in (3, 1, 2):
                group.create_task(late(s))
        return order

    assert run_virtual(main()) == [1, 2, 3]


async def test_deadlines_hit_on_the_nanosecond() -> None:
    clock = VirtualClock(_loop(), wall_start_ns=1_700_000_000_000_000_000)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.7):
            await asyncio.sleep(0.700000001)
    assert clock.monotonic_ns() == 700_000_000
    assert clock.wall_ns() == 1_700_000_000_700_000_000
    assert clock.from_kernel_ns(clock.wall_ns()) == clock.monotonic_ns()


async def test_real_loopback_sockets_are_served_before_time_passes() -> None:
    class Echo(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            assert isinstance(self.transport, asyncio.Transport)
            self.transport.write(data)

    listener = await TcpDialer().listen(Echo, "127.0.0.1:0")
    host, port = listener.address.split(":")
    async with asyncio.timeout(0.001):
        reader, writer = await asyncio.open_connection(host, int(port))
        for _ in range(100):
            writer.write(b"ping")
            assert await reader.readexactly(4) == b"ping"
        writer.close()
        await writer.wait_closed()
    assert asyncio.get_running_loop().time() == 0
    await listener.close()
    await asyncio.sleep(1)


async def test_executor_runs_inline_and_yields_and_names_of_hosts_which_it_cannot_wait_for_are_refused() -> None:
    loop = asyncio.get_running_loop()
    steps: list[str] = []
    loop.call_soon(steps.append, "other")
    future = loop.run_in_executor(None, steps.append, "work")
    assert steps == ["work"]
    assert not future.done()
    await future
    assert steps == ["work", "other"]
    with pytest.raises(ZeroDivisionError):
        await loop.run_in_executor(None, divmod, 1, 0)
    with pytest.raises(RuntimeError, match="raised StopIteration"):
        await loop.run_in_executor(None, next, iter(()))
    loop.run_in_executor(None, divmod, 1, 1).cancel()
    with pytest.raises(socket.gaierror, match=r"ocs1\.lab: virtual time cannot wait .* Use a numeric address"):
        await asyncio.open_connection("ocs1.lab", 3082)
    assert await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80)


def test_deadlock_is_an_error_that_says_who_waits_where() -> None:
    async def forgotten() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await asyncio.sleep(12.5)
        await asyncio.create_task(forgotten(), name="hwd:ocs1/poll")

    with pytest.raises(
        Deadlock, match=r"virtual time 12\.5 s: nothing can ever happen again; .*hwd:ocs1/poll at .*locks"
    ):
        run_virtual(main())


def test_time_limit_of_a_test_ends_a_world_that_goes_on_for_ever() -> None:
    class TimeLimitError(BaseException):
        pass

    def pass_the_limit() -> None:
        raise TimeLimitError

    async def main() -> None:
        asyncio.get_running_loop().call_later(10, pass_the_limit)
        for _ in itertools.count():
            await asyncio.sleep(1)

    with pytest.raises(RuntimeError, match="stopped before Future completed"):
        run_virtual(main())


def test_open_socket_is_waited_for_in_real_time() -> None:
    ours, theirs = socket.socketpair()
    script = "import socket, time; time.sleep(0.2); socket.socket(fileno=0).sendall(b'late')"
    child = subprocess.Popen([sys.executable, "-c", script], stdin=theirs.fileno())
    theirs.close()

    async def main() -> None:
        reader, writer = await asyncio.open_connection(sock=ours)
        assert await reader.read() == b"late"
        assert asyncio.get_running_loop().time() == 0
        writer.close()
        await writer.wait_closed()

    run_virtual(main())
    assert child.wait(60) == 0


def test_sets_of_tasks_and_futures_keep_one_order() -> None:
    def world() -> list[int]:
        order: list[int] = []

        async def stopped(number: int) -> None:
            try:
                await asyncio.sleep(100)
            finally:
                order.append(number)

        async def failing_group() -> None:
            async with asyncio.TaskGroup() as group:
                for number in range(50):
                    group.create_task(stopped(number))
                await asyncio.sleep(1)
                raise ZeroDivisionError

        async def main() -> None:
            with pytest.raises(ExceptionGroup):
                await failing_group()
            loop = asyncio.get_running_loop()
            futures = {loop.create_future(): number for number in range(50)}
            for future in futures:
                future.set_result(None)
            done, _ = await asyncio.wait(futures)
            order.extend(futures[future] for future in done)

        run_virtual(main())
        return order

    worlds: list[list[int]] = []
    for _ in range(5):
        noise = [object() for _ in range(random.Random(len(worlds)).randrange(1000))]
        worlds.append(world())
        del noise
    assert all(each == worlds[0] for each in worlds)
    assert sorted(worlds[0]) == sorted([*range(50), *range(50)])


def test_seed_reaches_libraries_that_draw_from_the_global_generator() -> None:
    async def main() -> float:
        return random.random()  # noqa: TID251 - in place of a library

    before = random.getstate()
    assert run_virtual(main(), seed=4) == run_virtual(main(), seed=4) != run_virtual(main(), seed=5)
    assert random.getstate() == before


def _loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop
