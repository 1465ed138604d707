"""Hours pass in milliseconds, every run is the same, and killed nodes run nothing."""

import asyncio
import contextvars
import random
import socket
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator

import pytest

from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.transports.memory import MemoryNet
from hwd_drivers.twins.virtual_time import Deadlock, NodeKilled, Nodes, VirtualClock, VirtualLoop, run_virtual


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


def test_deadlines_hit_on_the_nanosecond() -> None:
    async def main() -> None:
        clock = VirtualClock(_loop(), wall_start_ns=1_700_000_000_000_000_000)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.7):
                await asyncio.sleep(0.700000001)
        assert clock.monotonic_ns() == 700_000_000
        assert clock.wall_ns() == 1_700_000_000_700_000_000
        assert clock.from_kernel_ns(clock.wall_ns()) == clock.monotonic_ns()

    run_virtual(main())


def test_real_loopback_sockets_are_served_before_time_passes() -> None:
    class Echo(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            assert isinstance(self.transport, asyncio.Transport)
            self.transport.write(data)

    async def main() -> None:
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

    run_virtual(main())


def test_executor_runs_inline_and_yields() -> None:
    async def main() -> None:
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

    run_virtual(main())


def test_names_of_hosts_are_refused_with_the_remedy() -> None:
    async def main() -> None:
        with pytest.raises(socket.gaierror, match=r"ocs1\.lab: virtual time cannot wait .* Use a numeric address"):
            await asyncio.open_connection("ocs1.lab", 3082)
        assert await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80)

    run_virtual(main())


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


def test_dead_node_runs_nothing_more_and_no_finally() -> None:
    traces: list[str] = []

    async def generated() -> AsyncIterator[int]:
        try:
            while True:
                await asyncio.sleep(1)
                yield 1
        finally:
            traces.append("finally of a generator")

    async def inner() -> None:
        try:
            async for _ in generated():
                pass
        finally:
            traces.append("finally of a task")

    async def life() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(5, traces.append, "timer")
        loop.call_soon(traces.append, "soon")
        loop.call_soon_threadsafe(traces.append, "threadsafe")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(inner())
                group.create_task(inner())
        finally:
            traces.append("finally of a life")

    async def main() -> None:
        nodes = Nodes()
        task = asyncio.create_task(nodes.run_in_node("daemon", life()))
        await asyncio.sleep(3.5)
        assert nodes.alive("daemon")
        nodes.kill("daemon")
        nodes.kill("daemon")
        assert not nodes.alive("daemon")
        with pytest.raises(NodeKilled, match=r"node daemon: killed at virtual time 3\.5 s"):
            await task
        assert {each.get_name() for each in asyncio.all_tasks()} == {asyncio.current_task().get_name()}  # type: ignore[union-attr]
        await asyncio.sleep(100)

    run_virtual(main())
    assert traces == ["soon", "threadsafe"]


def test_killed_node_is_silent_until_the_interpreter_ends() -> None:
    program = """
        import asyncio, gc
        from hwd_drivers.twins.virtual_time import NodeKilled, Nodes, run_virtual

        async def numbers():
            try:
                while True:
                    await asyncio.sleep(1)
                    yield 1
            finally:
                print("finally of a generator")

        async def life():
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(asyncio.sleep(1000))
                    async for _ in numbers():
                        pass
            finally:
                print("finally of a life")

        async def never_begun():
            print("begun")

        async def main():
            nodes = Nodes()
            task = asyncio.create_task(nodes.run_in_node("daemon", life()))
            await asyncio.sleep(5)
            with nodes.node("daemon"):
                asyncio.create_task(never_begun())
            nodes.kill("daemon")
            try:
                await task
            except NodeKilled:
                print("died")

        run_virtual(main())
        gc.collect()
    """
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", textwrap.dedent(program)]
    shown = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (shown.stdout, shown.stderr, shown.returncode) == ("died\n", "", 0)


def test_node_dies_in_place_of_every_callback_in_turn_with_one_outcome_each() -> None:
    def world(dies_at: int) -> tuple[list[str], int]:
        trace: list[str] = []

        async def life(net: MemoryNet) -> None:
            transport, _ = await net.connect(asyncio.Protocol, "mem:peer")
            for number in range(3):
                transport.write(b"%d" % number)
                trace.append(f"wrote {number}")
                await asyncio.sleep(1)
            transport.close()

        class Peer(asyncio.Protocol):
            def data_received(self, data: bytes) -> None:
                trace.append(f"got {data.decode()}")

            def connection_lost(self, exc: Exception | None) -> None:
                trace.append(f"lost {exc}")

        async def main() -> int:
            nodes = Nodes()
            net = MemoryNet(nodes=nodes)
            listener = await net.listen(Peer, "mem:peer")
            nodes.kill_at("daemon", dies_at)
            try:
                await nodes.run_in_node("daemon", life(net))
            except NodeKilled:
                trace.append("died")
                assert nodes.callbacks("daemon") == dies_at - 1
            await asyncio.sleep(10)
            await listener.close()
            return nodes.callbacks("daemon")

        return trace, run_virtual(main())

    whole, callbacks = world(1_000_000)
    assert whole[:2] == ["wrote 0", "got 0"]
    assert "died" not in whole
    outcomes = set()
    for dies_at in range(1, callbacks + 1):
        trace, ran = world(dies_at)
        assert ran == dies_at - 1
        assert world(dies_at) == (trace, ran)
        wrote = [each for each in trace if each.startswith("wrote")]
        assert wrote == ["wrote 0", "wrote 1", "wrote 2"][: len(wrote)]
        # A peer that was connected sees the end once; one that was written to was connected.
        assert trace.count("lost None") == 1 or (not wrote and trace == ["died"])
        outcomes.add(tuple(trace))
    assert len(outcomes) >= 4


def test_next_life_is_a_new_one() -> None:
    async def main() -> None:
        nodes = Nodes()
        seen: list[str | None] = []

        async def life() -> int:
            seen.append(nodes.current())
            await asyncio.sleep(1)
            return 7

        nodes.kill_at("daemon", 2)
        with pytest.raises(NodeKilled):
            await nodes.run_in_node("daemon", life())
        assert await nodes.run_in_node("daemon", life()) == 7
        assert nodes.alive("daemon")
        assert seen == ["daemon", "daemon"]
        assert nodes.current() is None

    run_virtual(main())


def test_errors_and_cancels_go_through_the_wall_of_a_node() -> None:
    async def main() -> None:
        nodes = Nodes()
        tidied: list[str] = []

        async def failing() -> None:
            raise ZeroDivisionError

        async def tidy() -> None:
            try:
                await asyncio.sleep(100)
            finally:
                await asyncio.sleep(1)
                tidied.append("yes")

        with pytest.raises(ZeroDivisionError):
            await nodes.run_in_node("a", failing())
        task = asyncio.create_task(nodes.run_in_node("a", tidy()))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert tidied == ["yes"]
        task = asyncio.create_task(nodes.run_in_node("a", tidy()))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.sleep(0.5)
        nodes.kill("a")
        with pytest.raises(asyncio.CancelledError):
            await task
        assert tidied == ["yes"]

    run_virtual(main())


def test_kill_hooks_run_outside_of_the_node() -> None:
    async def main() -> None:
        nodes = Nodes()
        heard: list[tuple[str, str | None]] = []

        def hear(name: str) -> None:
            asyncio.get_running_loop().call_soon(lambda: heard.append((name, nodes.current())))

        nodes.on_kill(hear)
        nodes.kill_at("a", 1)
        with pytest.raises(NodeKilled):
            await nodes.run_in_node("a", asyncio.sleep(1))
        await asyncio.sleep(1)
        assert heard == [("a", None)]

    run_virtual(main())


def test_what_cannot_be_killed_says_why() -> None:
    async def main() -> None:
        nodes = Nodes()
        with pytest.raises(LookupError, match=r"node a: never started\. There are: none"):
            nodes.kill("a")
        assert not nodes.alive("a")

        async def suicide() -> None:
            nodes.kill("a")

        with pytest.raises(RuntimeError, match="node a: cannot stop the task that runs"):
            await nodes.run_in_node("a", suicide())
        with pytest.raises(ValueError, match="node a: callback 1 is over, it has run"):
            nodes.kill_at("a", 1)
        listener = await nodes.run_in_node("a", TcpDialer().listen(asyncio.Protocol, "127.0.0.1:0"))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match=r"node a: holds file descriptors .* Give it a MemoryNet"):
            nodes.kill("a")
        await listener.close()
        nodes.kill("a")

    run_virtual(main())


async def test_node_needs_a_loop_with_a_fence() -> None:
    with pytest.raises(RuntimeError, match=r"has no fence\. Run it in a VirtualLoop"), Nodes().node("a"):
        pass


def test_context_variables_of_the_caller_reach_the_node() -> None:
    label = contextvars.ContextVar("label", default="none")

    async def read() -> str:
        return label.get()

    async def main() -> None:
        label.set("plan 7")
        assert await Nodes().run_in_node("a", read()) == "plan 7"

    run_virtual(main())


def _loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop
