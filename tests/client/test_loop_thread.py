"""A client that waits, from programs with a loop, from several threads, and at their interrupts."""

import asyncio
import gc
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncGenerator, Iterator

import pytest

from hwd.client import Client
from hwd.client.loop_thread import LoopThread
from hwd_drivers.core.errors import BugError, LinkError
from hwd_drivers.core.offload import ThreadOffload


async def nothing() -> None:
    pass


async def answer(text: str) -> str:
    return text


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    made = LoopThread("client of a test")
    yield made
    made.close(nothing)


@pytest.fixture
def two_threads() -> Iterator[ThreadOffload]:
    offload = ThreadOffload(2)
    yield offload
    offload.close()


def interrupt_soon(event: threading.Event) -> threading.Thread:
    """Ctrl-C, once `event` is set."""

    def interrupt() -> None:
        event.wait()
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=interrupt)
    sender.start()
    return sender


def test_no_thread_is_started_before_the_first_call() -> None:
    before = threading.active_count()
    with Client("http://127.0.0.1:1"):
        assert threading.active_count() == before


def test_an_interrupt_ends_the_request_at_the_daemon_too() -> None:
    asked, gone = threading.Event(), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as sock:

        def serve() -> None:
            connection, _ = sock.accept()
            with connection:
                connection.recv(65536)
                asked.set()
                if connection.recv(1) == b"":
                    gone.set()

        server = threading.Thread(target=serve)
        server.start()
        sender = interrupt_soon(asked)
        with Client(f"http://127.0.0.1:{sock.getsockname()[1]}") as client, pytest.raises(KeyboardInterrupt):
            client.status()
        assert gone.wait(5)
        sender.join()
        server.join()


def test_an_interrupt_ends_a_generator_that_is_stepped(thread: LoopThread) -> None:
    waits, ended = threading.Event(), threading.Event()

    async def count() -> AsyncGenerator[int, None]:
        try:
            yield 1
            waits.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    numbers = thread.step(count())
    assert next(numbers) == 1
    sender = interrupt_soon(waits)
    with pytest.raises(KeyboardInterrupt):
        next(numbers)
    sender.join()
    assert ended.is_set()
    assert list(numbers) == []


def test_an_interrupt_at_any_moment_of_a_call_ends_its_coroutine(thread: LoopThread) -> None:
    begun, ended = [], []

    async def call() -> None:
        begun.append(1)
        os.kill(os.getpid(), signal.SIGINT)  # the caller may not have begun to wait
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)

    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # the threads take turns at any line
    gc.disable()  # Python drops an interrupt that comes while the collector calls a finaliser
    try:
        for _ in range(1000):
            with pytest.raises(KeyboardInterrupt):
                thread.run(call())
            assert len(begun) == len(ended)
    finally:
        gc.enable()
        sys.setswitchinterval(switch_s)


@pytest.mark.parametrize("closes_first", ["the generator", "the loop"])
def test_a_generator_that_was_left_is_closed(thread: LoopThread, closes_first: str) -> None:
    ended = threading.Event()

    async def count() -> AsyncGenerator[int, None]:
        try:
            while True:
                yield 1
        finally:
            ended.set()

    numbers = thread.step(count())
    assert next(numbers) == 1
    if closes_first == "the loop":
        thread.close(nothing)
    numbers.close()
    assert ended.is_set()


async def test_calls_of_several_threads_are_answered_at_the_same_time(
    thread: LoopThread, two_threads: ThreadOffload
) -> None:
    async def barrier() -> asyncio.Barrier:
        return asyncio.Barrier(2)

    meeting = thread.run(barrier())
    came = asyncio.gather(*(two_threads(lambda: thread.run(meeting.wait())) for _ in range(2)))
    assert sorted(await came) == [0, 1]


async def test_a_client_that_is_closed_ends_the_calls_of_other_threads_and_takes_no_more(
    thread: LoopThread, two_threads: ThreadOffload
) -> None:
    waits = threading.Event()

    async def wait_for_ever() -> None:
        waits.set()
        await asyncio.Event().wait()

    waiting = asyncio.ensure_future(two_threads(lambda: thread.run(wait_for_ever())))
    await two_threads(waits.wait)
    thread.close(nothing)
    with pytest.raises(LinkError, match="the client was closed before the answer came"):
        await waiting
    with pytest.raises(BugError, match="the client is closed"):
        thread.run(answer("too late"))


def test_a_call_from_the_clients_own_thread_is_refused_and_does_not_hang(thread: LoopThread) -> None:
    async def call_again() -> str:
        return thread.run(answer("never"))

    with pytest.raises(BugError, match="would wait for itself"):
        thread.run(call_again())
