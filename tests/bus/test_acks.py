"""What is owed to agents while the records take nothing."""

import asyncio
import logging

import pytest

from hwd.bus.acks import Acks
from hwd_drivers.core.errors import FailedError


async def test_records_that_take_nothing_are_said_once_and_once_when_they_do_again(
    virtual_time: None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    tries: list[float] = []
    sent: list[tuple[str, str, int]] = []

    async def durable() -> None:
        tries.append(asyncio.get_running_loop().time())
        if len(tries) <= 20:
            raise FailedError("records: database or disk is full")

    async def send(host: str, boot: str, upto: int) -> None:
        sent.append((host, boot, upto))

    acks = Acks(durable=durable, send=send)
    acks.owe("h0", "b1", 7)
    acking = asyncio.create_task(acks.run())
    await asyncio.sleep(60)
    acking.cancel()
    await asyncio.wait([acking])
    assert (len(tries), sent) == (21, [("h0", "b1", 7)])
    assert [(one.levelname, one.message) for one in caplog.records] == [
        ("WARNING", "events are not acknowledged, and tried again every second: records: database or disk is full"),
        ("INFO", "events are acknowledged again"),
    ]
