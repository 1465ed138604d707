"""Crashes of the real daemon, checked from outside; `make crashes` is the long run."""

import asyncio
import shutil

import pytest

from hwd.testing.crashes.campaign import campaign
from hwd.testing.crashes.dying_daemon import Boundary
from hwd.testing.crashes.plan import PATCHES, Ask, Life, draw_lives

needs_mosquitto = pytest.mark.skipif(
    shutil.which("mosquitto", path="/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin") is None,
    reason="needs mosquitto: apt-get install mosquitto",
)
KILLS, SEED = 25, 7
LOST_AFTER = 3
"""Lives until a journal that loses what is written is found: the first move of light shows it."""


def test_one_seed_draws_one_plan_that_dies_at_every_boundary() -> None:
    lives = [*draw_lives(1, 200)]
    assert lives == [*draw_lives(1, 300)][:200]
    assert lives != [*draw_lives(2, 200)]
    assert {life.boundary for life in lives} == {None, *Boundary}


@pytest.mark.slow
@pytest.mark.timeout(300)
@needs_mosquitto
def test_crashes_of_the_daemon_break_no_rule() -> None:
    async def main() -> None:
        async with campaign() as one:
            for life in draw_lives(SEED, KILLS):
                await one.live(life)
                assert [str(broken) for broken in one.broken] == [], f"{life}. Again: make crashes SEED={SEED}"
            await one.finish()
            assert [str(broken) for broken in one.broken] == []
            assert sum(one.died_at.values()) == KILLS
            where = {how.removesuffix(", in its start") for how in one.died_at}
            assert where == {*map(str, Boundary), "at random"}

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.timeout(300)
@needs_mosquitto
def test_daemon_that_dies_once_it_is_at_rest_breaks_no_rule() -> None:
    """It rolls back what nobody has confirmed, and is killed before that is in its records: its next life writes it."""

    async def main() -> None:
        async with campaign() as one:
            for number in range(24):
                ask = Ask(id=f"c{number:05d}ax", what=f"ocs1:{PATCHES[number % 2]}", confirm_within_s=0.3)
                after_s = 0.35 if number % 2 == 0 else 0.15 + 0.006 * number
                await one.live(Life(number=number, boundary=None, after_s=after_s, asks=(ask,)))
                assert [str(broken) for broken in one.broken] == []
            await one.finish()
            assert [str(broken) for broken in one.broken] == []

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.timeout(300)
@needs_mosquitto
def test_journal_that_loses_what_is_written_is_found() -> None:
    async def main() -> None:
        async with campaign(loses_writes=True) as one:
            for life in draw_lives(SEED, LOST_AFTER):
                await one.live(life)
            assert "intent-durable" in {broken.rule for broken in one.broken}

    asyncio.run(main())
