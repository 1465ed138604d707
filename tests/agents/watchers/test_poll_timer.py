"""How a watcher waits between two looks."""

import asyncio

from hwd_agents.watchers.poll_timer import PollTimer

from ..conftest import virtual


@virtual
async def test_looks_are_as_far_apart_as_asked_whatever_a_look_takes() -> None:
    pace, looks = PollTimer(), []
    for look_s in (0.0, 0.3, 0.1, 0.0, 0.4):
        await pace.wait(1.0)
        looks.append(asyncio.get_running_loop().time())
        await asyncio.sleep(look_s)
    assert [round(at_s, 6) for at_s in looks] == [0, 1, 2, 3, 4]


@virtual
async def test_a_look_that_took_too_long_is_followed_at_once_and_not_made_up_for() -> None:
    pace, looks = PollTimer(), []
    for look_s in (3.5, 0.0, 0.0):
        await pace.wait(1.0)
        looks.append(asyncio.get_running_loop().time())
        await asyncio.sleep(look_s)
    assert [round(at_s, 6) for at_s in looks] == [0, 3.5, 4.5]


@virtual
async def test_timers_that_fire_late_do_not_slow_the_pace() -> None:
    """As those of epoll, which are up to a millisecond late: 5 ms apart, 200 looks take a second and not 1.1."""
    loop, pace = asyncio.get_running_loop(), PollTimer()
    call_at = loop.call_at
    loop.call_at = lambda when, *rest, **more: call_at(when + 0.0009, *rest, **more)  # type: ignore[method-assign]
    for _ in range(201):
        await pace.wait(0.005)
    assert round(loop.time(), 6) == 1.0009  # as late as one timer


@virtual
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


@virtual
async def test_without_a_pace_only_a_call_ends_the_wait() -> None:
    loop, pace = asyncio.get_running_loop(), PollTimer()
    loop.call_later(86400, pace.hurry)
    await pace.wait(None)
    assert loop.time() == 86400


@virtual
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
