"""A killed node runs nothing more, and its next life is a new one."""

import asyncio
import contextvars
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator

import pytest

from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.transports.memory import MemoryNet
from hwd_drivers.twins.nodes import NodeKilled, Nodes
from hwd_drivers.twins.virtual_time import run_virtual

pytestmark = pytest.mark.usefixtures("virtual_time")


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
        from hwd_drivers.twins.nodes import NodeKilled, Nodes
        from hwd_drivers.twins.virtual_time import run_virtual

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


async def test_next_life_is_a_new_one_in_the_context_of_its_caller_and_kill_hooks_run_outside_of_the_node() -> None:
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
    label = contextvars.ContextVar("label", default="none")

    async def read() -> str:
        return label.get()

    label.set("plan 7")
    assert await Nodes().run_in_node("a", read()) == "plan 7"


async def test_errors_and_cancels_go_through_the_wall_of_a_node() -> None:
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


async def test_what_cannot_be_killed_says_why() -> None:
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


def test_node_needs_a_loop_with_a_fence() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"has no fence\. Run it in a VirtualLoop"), Nodes().node("a"):
            pass

    asyncio.run(main())
