"""What an agent's loop calls before it looks at its sockets, and first when it is woken by one."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine, Iterator

import pytest

from hwd_agents.process.agent_loop import AgentLoop

WITHIN_S = 20.0


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def run(main: Callable[[AgentLoop], Coroutine[None, None, None]]) -> None:
    async def within() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, AgentLoop)
        async with asyncio.timeout(WITHIN_S):
            await main(loop)

    with asyncio.Runner(loop_factory=AgentLoop) as runner:
        runner.run(within())


def test_who_reads_first_is_called_before_all_others_that_wait_for_that_turn(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    other, woken = socket.socketpair()
    other.setblocking(False)
    calls: list[object] = []

    async def main(loop: AgentLoop) -> None:
        done = loop.create_future()

        def first() -> None:
            calls.append(ours.recv(8))
            loop.call_soon(done.set_result, None)

        def second() -> None:
            loop.remove_reader(other)
            calls.append("other")

        loop.add_reader(other, second)
        loop.read_first(ours.fileno(), first)
        woken.send(b"x")
        theirs.send(b"told")
        await done
        assert calls == [b"told", "other"]
        theirs.send(b"more")
        loop.read_first_no_more(ours.fileno())
        await asyncio.sleep(0.01)
        assert calls == [b"told", "other"]

    with other, woken:
        run(main)


def test_timers_and_sockets_go_on_while_somebody_reads_first(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    turns: list[int] = []

    async def main(loop: AgentLoop) -> None:
        loop.before_look.append(lambda: turns.append(1))
        loop.read_first(ours.fileno(), lambda: turns.append(2))
        reader, writer = await asyncio.open_connection(sock=theirs.dup())
        started = loop.time()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.05)
        assert 0.05 <= loop.time() - started < WITHIN_S
        assert 1 <= len(turns) < 20  # it sleeps in between
        loop.read_first_no_more(ours.fileno())
        writer.close()

    run(main)
