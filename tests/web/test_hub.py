"""The event stream's memory: numbers without gaps, what is kept, and listeners that are slow or gone."""

import asyncio

import pytest

from hwd.model.documents.daemon import DaemonLag
from hwd.web.hub import REPLAY, WAITING, Hub
from hwd_drivers.core.documents import Document

pytestmark = pytest.mark.usefixtures("virtual_time")


def document(number: int) -> Document:
    return Document(at_ns=number, wall_ns=number, fact=DaemonLag(seconds=number))


async def test_who_comes_back_gets_what_it_missed_and_then_goes_on_without_gap_or_double() -> None:
    hub = Hub()
    for number in range(1, 11):
        hub(document(number))
    numbers: list[int] = []

    async def take() -> None:
        following = hub.follow(4)
        async for number, one in following:
            assert one.fact == DaemonLag(seconds=number)
            numbers.append(number)
            if number in (5, 10):
                hub(document(hub.last + 1))  # while it is told of what it missed
            if number == 13:
                break
        await following.aclose()

    taking = asyncio.create_task(take())
    await asyncio.sleep(0.1)
    assert numbers == [*range(5, 13)]
    hub(document(13))
    await taking
    assert numbers == [*range(5, 14)]


async def test_who_is_too_slow_misses_some_and_is_not_waited_for() -> None:
    hub = Hub()
    following = hub.follow(None)
    first = asyncio.ensure_future(anext(following))
    await asyncio.sleep(0)
    hub(document(1))
    assert (await first)[0] == 1
    for number in range(2, WAITING + 1002):
        hub(document(number))
    numbers = [(await anext(following))[0] for _ in range(WAITING)]
    hub(document(WAITING + 1002))
    numbers.append((await anext(following))[0])
    await following.aclose()
    assert numbers == [*range(2, WAITING + 2), WAITING + 1002]  # a gap in the numbers, where it fell behind
    assert hub.last == WAITING + 1002
    assert WAITING < REPLAY, "who is told of a gap can come back for what it missed"
