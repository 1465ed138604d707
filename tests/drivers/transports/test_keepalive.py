"""KeepAlive: it pings at intervals, until the session ends or it is stopped."""

import asyncio

import pytest

from hwd_drivers.core.errors import DeadlineError, LinkError
from hwd_drivers.transports.keepalive import KeepAlive

pytestmark = pytest.mark.usefixtures("virtual_time")


class Session:
    """Answers, or raises the error of the test."""

    def __init__(self) -> None:
        self.deadlines_s: list[float] = []
        self.error: Exception | None = None

    async def ping(self, deadline_s: float) -> None:
        self.deadlines_s.append(deadline_s)
        if self.error is not None:
            raise self.error


async def test_it_pings_at_intervals_with_a_deadline() -> None:
    session = Session()
    keep_alive = KeepAlive(name="ocs1", every_s=20, ping=session.ping)
    await asyncio.sleep(61)
    assert session.deadlines_s == [40, 60, 80]
    await keep_alive.stop()
    await keep_alive.stop()
    await asyncio.sleep(100)
    assert len(session.deadlines_s) == 3


@pytest.mark.parametrize(("error", "pings"), [(DeadlineError("late"), 5), (LinkError("gone"), 1)])
async def test_it_goes_on_after_a_late_answer_and_ends_with_the_session(error: Exception, pings: int) -> None:
    session = Session()
    session.error = error
    keep_alive = KeepAlive(name="ocs1", every_s=1, ping=session.ping)
    await asyncio.sleep(5.5)
    assert len(session.deadlines_s) == pings
    await keep_alive.stop()
