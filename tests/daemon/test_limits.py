"""A limit that is reached a thousand times a second costs one document in a while, and none of the times is lost."""

import asyncio

from hwd.daemon.limits import DETAIL_MAX, EVERY_S, Limits
from hwd.model.documents.daemon import LimitReached
from hwd.model.limit import Limit
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document
from hwd_drivers.twins.virtual_time import VirtualLoop


async def test_the_first_is_told_at_once_and_the_others_are_counted(virtual_loop: VirtualLoop) -> None:
    told = list[LimitReached]()

    def keep(document: Document) -> None:
        assert isinstance(document.fact, LimitReached)
        told.append(document.fact)

    limits = Limits(SystemClock())
    limits(Limit.HTTP_BODY, "before anybody listened")
    task = asyncio.create_task(limits.run(keep))
    await asyncio.sleep(0.001)
    assert [fact.count for fact in told] == [1]
    for number in range(1000):
        limits(Limit.HTTP_BODY, f"body {number}")
        limits(Limit.MQTT_PACKET, "x" * 1000)
        await asyncio.sleep(EVERY_S / 2000)
    assert len(told) == 2, "one more limit, and nothing yet of the first"
    await asyncio.sleep(2 * EVERY_S)
    limits(Limit.HTTP_BODY, "at the end")
    await asyncio.sleep(0.001)
    limits(Limit.HTTP_BODY, "at the very end")
    task.cancel()
    await asyncio.wait([task])
    bodies = [fact for fact in told if fact.limit == "http-body"]
    assert [fact.count for fact in bodies] == [1, 1000, 1, 1]
    assert [fact.detail for fact in bodies][1:] == ["body 999", "at the end", "at the very end"]
    packets = [fact for fact in told if fact.limit == "mqtt-packet"]
    assert sum(fact.count for fact in packets) == 1000
    assert all(len(fact.detail) < DETAIL_MAX + 4 for fact in packets)
