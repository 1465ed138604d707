"""The token bucket: its rate holds over any time, and a wait is as long as it must be."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from hwd_agents.probes.token_bucket import Bucket
from hwd_drivers.twins.virtual_time import run_virtual


async def test_a_fresh_or_rested_bucket_gives_its_burst_at_once_and_no_more(virtual_time: None) -> None:
    bucket = Bucket(per_s=100, most=5)
    assert [bucket.take() for _ in range(7)] == [True] * 5 + [False] * 2
    await asyncio.sleep(60)
    assert sum(bucket.take() for _ in range(50)) == 5


@given(st.lists(st.floats(0, 0.3), min_size=1, max_size=60), st.integers(1, 1000), st.integers(1, 30))
def test_no_stretch_of_time_gives_more_than_its_rate_and_one_burst(
    pauses_s: list[float], per_s: int, most: int
) -> None:
    async def take_all() -> list[float]:
        bucket = Bucket(per_s=per_s, most=most)
        taken: list[float] = []
        for pause_s in pauses_s:
            await asyncio.sleep(pause_s)
            while bucket.take():
                taken.append(asyncio.get_running_loop().time())
        return taken

    taken = run_virtual(take_all())
    for first, since_s in enumerate(taken):
        for last in range(first, len(taken)):
            assert last - first + 1 <= most + (taken[last] - since_s) * per_s + 1e-6
