"""The token bucket: its rate holds over any time, and a wait is as long as it must be."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from hwd_agents.probes.token_bucket import Bucket

from ..conftest import virtual


@virtual
async def test_a_fresh_bucket_gives_its_burst_at_once_and_no_more() -> None:
    bucket = Bucket(per_s=100, most=5)
    assert [bucket.take() for _ in range(7)] == [True] * 5 + [False] * 2


@virtual
async def test_after_its_wait_there_is_a_token() -> None:
    bucket = Bucket(per_s=30, most=1)
    assert bucket.take()
    for _ in range(100):
        await asyncio.sleep(bucket.wait_s())
        while not bucket.take():  # rounding: another try after the least wait
            assert bucket.wait_s() < 0.001
            await asyncio.sleep(bucket.wait_s())
    assert asyncio.get_running_loop().time() < 100 / 30 + 0.1


@virtual
async def test_what_is_not_taken_for_long_is_not_saved_up() -> None:
    bucket = Bucket(per_s=100, most=3)
    await asyncio.sleep(60)
    assert sum(bucket.take() for _ in range(50)) == 3


@given(st.lists(st.floats(0, 0.3), min_size=1, max_size=60), st.integers(1, 1000), st.integers(1, 30))
@virtual
async def test_no_stretch_of_time_gives_more_than_its_rate_and_one_burst(
    pauses_s: list[float], per_s: int, most: int
) -> None:
    loop = asyncio.get_running_loop()
    bucket = Bucket(per_s=per_s, most=most)
    taken: list[float] = []
    for pause_s in pauses_s:
        await asyncio.sleep(pause_s)
        while bucket.take():
            taken.append(loop.time())
    for first, since_s in enumerate(taken):
        for last in range(first, len(taken)):
            assert last - first + 1 <= most + (taken[last] - since_s) * per_s + 1e-6
