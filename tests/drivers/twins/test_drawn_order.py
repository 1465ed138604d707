"""Steps of tasks may be overtaken; what asyncio promises stays."""

import asyncio
import contextvars

from hwd_drivers.twins.drawn_order import DrawnOrderLoop
from hwd_drivers.twins.virtual_time import run_virtual

name: contextvars.ContextVar[str] = contextvars.ContextVar("name")


def played(turns: dict[int, int], *, steps: int = 3) -> list[str]:
    """Three tasks, each of some steps, and callbacks between them."""
    told: list[str] = []

    async def work(task: str) -> None:
        name.set(task)
        for step in range(steps):
            told.append(f"{name.get()}{step}")
            await asyncio.sleep(0)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        tasks = []
        for number, task in enumerate("abc"):
            tasks.append(loop.create_task(work(task)))
            loop.call_soon(told.append, f"call {number}")
        await asyncio.gather(*tasks)

    run_virtual(main(), loop=lambda: DrawnOrderLoop(lambda step: turns.get(step, 0)))
    return told


def test_step_of_a_task_is_overtaken_and_nothing_else_and_in_its_own_order_and_context() -> None:
    told = played({})
    assert told == ["a0", "call 0", "b0", "call 1", "c0", "call 2", "a1", "b1", "c1", "a2", "b2", "c2"]
    told = played({2: 2})
    assert told.index("a0") > told.index("b1")
    assert [one for one in told if one.startswith("call")] == ["call 0", "call 1", "call 2"]
    told = played({step: step % 5 for step in range(100)}, steps=8)
    for task in "abc":
        assert [one for one in told if one[0] == task and one[1:].isdigit()] == [f"{task}{step}" for step in range(8)]


def test_delayed_step_of_a_cancelled_task_sees_the_cancellation() -> None:
    async def main() -> str:
        task = asyncio.create_task(asyncio.sleep(10))
        await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return "cancelled"
        return "slept"

    assert run_virtual(main(), loop=lambda: DrawnOrderLoop(lambda step: 3)) == "cancelled"
