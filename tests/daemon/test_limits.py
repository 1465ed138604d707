"""A limit that is reached a thousand times a second costs one document in a while, and none of the times is lost."""

import asyncio

from hwd.daemon.limits import DETAIL_MAX, EVERY_S, Limits
from hwd.model.kinds import check
from hwd.model.limit import Limit
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document, Json
from hwd_drivers.twins.virtual_time import run_virtual


def test_the_first_is_told_at_once_and_the_others_are_counted() -> None:
    async def main() -> list[Document]:
        told = list[Document]()
        limits = Limits(SystemClock())
        limits(Limit.HTTP_BODY, "before anybody listened")
        task = asyncio.create_task(limits.run(told.append))
        await asyncio.sleep(0.001)
        assert [document.data["count"] for document in told] == [1]
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
        await asyncio.gather(task, return_exceptions=True)
        return told

    told = run_virtual(main(), seed=1)
    for document in told:
        check(document)
    bodies = [document.data for document in told if document.data["limit"] == "http-body"]
    assert [data["count"] for data in bodies] == [1, 1000, 1, 1]
    assert [data["detail"] for data in bodies][1:] == ["body 999", "at the end", "at the very end"]
    packets = [document.data for document in told if document.data["limit"] == "mqtt-packet"]
    assert sum(_count(data["count"]) for data in packets) == 1000
    assert all(len(str(data["detail"])) < DETAIL_MAX + 4 for data in packets)


def _count(value: Json) -> int:
    assert isinstance(value, int)
    return value
