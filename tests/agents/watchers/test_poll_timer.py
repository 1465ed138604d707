"""How a watcher waits between two looks."""

import asyncio

import pytest

from hwd_agents.watchers.poll_timer import PollTimer

pytestmark = pytest.mark.usefixtures("virtual_time")


@pytest.mark.parametrize(
    ("looks_s", "found_s"),
    [((0.0, 0.3, 0.1, 0.0, 0.4), [0, 1, 2, 3, 4]), ((3.5, 0.0, 0.0), [0, 3.5, 4.5])],
    ids=["one a second whatever a look takes", "at once after one that took too long, and nothing is made up for"],
)
async def test_looks_are_as_far_apart_as_asked(looks_s: tuple[float, ...], found_s: list[float]) -> None:
    pace, looks = PollTimer(), []
    for look_s in looks_s:
        await pace.wait(1.0)
        looks.append(asyncio.get_running_loop().time())
        await asyncio.sleep(look_s)
    assert [round(at_s, 6) for at_s in looks] == found_s


async def test_timers_that_fire_late_do_not_slow_the_pace() -> None:
    """As those of epoll, which are up to a millisecond late: 5 ms apart, 200 looks take a second and not 1.1."""
    loop, pace = asyncio.get_running_loop(), PollTimer()
    call_at = loop.call_at
    loop.call_at = lambda when, *rest, **more: call_at(when + 0.0009, *rest, **more)  # type: ignore[method-assign]
    for _ in range(201):
        await pace.wait(0.005)
    assert round(loop.time(), 6) == 1.0009  # as late as one timer


async def test_who_hurries_is_not_waited_for() -> None:
    loop, pace = asyncio.get_running_loop(), PollTimer()
    await pace.wait(10)
    loop.call_later(0.25, pace.hurry)
    await pace.wait(10)
    assert round(loop.time(), 6) == 0.25
    pace.hurry()
    pace.hurry()
    await pace.wait(10)
    assert round(loop.time(), 6) == 0.25
    await pace.wait(10)  # two calls are one look, and the pace counts from the look
    assert round(loop.time(), 6) == 10.25
    loop.call_later(86400, pace.hurry)
    await pace.wait(None)  # without a pace only a call ends it
    assert round(loop.time(), 6) == 86410.25


async def test_a_wait_that_is_given_up_leaves_no_timer_and_the_next_one_works() -> None:
    loop, pace = asyncio.get_running_loop(), PollTimer()
    await pace.wait(1)
    try:
        async with asyncio.timeout(0.5):
            await pace.wait(1)
    except TimeoutError:
        pass
    pace.hurry()
    await pace.wait(1)
    assert round(loop.time(), 6) == 0.5
    await pace.wait(1)
    assert round(loop.time(), 6) == 1.5
