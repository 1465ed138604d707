"""Blocking work runs elsewhere, and its result or error comes back."""

import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.offload import DetachedOffload, InlineOffload, Offload, ThreadOffload

label: contextvars.ContextVar[str] = contextvars.ContextVar("label", default="none")


@pytest.fixture(params=["thread", "inline", "detached"])
def offload(request: pytest.FixtureRequest) -> Iterator[Offload]:
    if request.param == "inline":
        yield InlineOffload()
        return
    if request.param == "detached":
        yield DetachedOffload(20.0)
        return
    threads = ThreadOffload(2)
    yield threads
    threads.close()


async def test_result_and_error_come_back_and_the_function_sees_the_context_of_its_caller(offload: Offload) -> None:
    assert await offload(divmod, 17, 5) == (3, 2)
    with pytest.raises(ZeroDivisionError):
        await offload(divmod, 1, 0)
    with pytest.raises(RuntimeError, match="raised StopIteration"):
        await offload(next, iter(()))
    label.set("plan 7")
    assert await offload(label.get) == "plan 7"


async def test_others_run_meanwhile(offload: Offload) -> None:
    steps: list[str] = []

    async def other() -> None:
        steps.append("other")

    task = asyncio.create_task(other())
    await offload(divmod, 1, 1)
    steps.append("back")
    await task
    assert steps == ["other", "back"]


async def test_threads_are_others_and_gone_after_close_and_inline_work_stays_in_that_of_the_loop() -> None:
    offload = ThreadOffload(1)
    thread = await offload(threading.current_thread)
    assert thread is not threading.current_thread()
    offload.close()
    assert not thread.is_alive()
    assert await InlineOffload()(threading.current_thread) is threading.current_thread()


async def test_cancelled_caller_does_not_wait_for_its_thread() -> None:
    offload = ThreadOffload(1)
    begun, let_go = threading.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    seen = asyncio.Event()

    def work() -> None:
        begun.set()
        loop.call_soon_threadsafe(seen.set)
        let_go.wait()

    task = asyncio.create_task(offload(work))
    await seen.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert begun.is_set()
    let_go.set()
    offload.close()


async def test_nobody_waits_for_detached_work_beyond_its_time_and_no_other_begins_meanwhile() -> None:
    released = threading.Event()
    offload = DetachedOffload(0.05)
    with pytest.raises(TimeoutError):
        await offload(released.wait)
    with pytest.raises(RefusedError, match="has not ended"):
        await offload(divmod, 1, 1)
    released.set()
    for thread in threading.enumerate():
        if thread.name == "hwd-detached":
            thread.join()
    assert await offload(divmod, 7, 2) == (3, 1)


def test_the_end_of_a_process_does_not_wait_for_detached_work() -> None:
    script = (
        "import asyncio, os, threading\n"
        "from hwd_drivers.core.offload import DetachedOffload\n"
        "async def main():\n"
        "    try:\n"
        "        await DetachedOffload(0.01)(threading.Event().wait)\n"
        "    except TimeoutError:\n"
        "        print('gone on')\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True)
    assert (done.stdout, done.stderr) == ("gone on\n", "")
