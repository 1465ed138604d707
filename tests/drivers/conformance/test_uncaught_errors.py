"""Uncaught exceptions are assigned to their check, counted, and printed once."""

import asyncio
import gc
import logging

import pytest

from hwd_drivers.conformance.uncaught_errors import collect_uncaught
from hwd_drivers.core.errors import DeadlineError


def burst(error: Exception) -> None:
    raise error


async def test_an_exception_in_a_callback_is_counted_and_printed_once(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    with collect_uncaught() as heard:
        for _ in range(3):
            loop.call_soon(burst, ValueError("no number"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert list(heard.counts.values()) == [3]
    assert str(heard).startswith("uncaught: ValueError: no number at test_uncaught_errors.py:")
    assert str(heard).endswith("(3 times)")
    assert len(caplog.records) == 1
    assert loop.get_exception_handler() is before


async def test_an_uncaught_error_of_ours_is_printed_and_not_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def late() -> None:
        raise DeadlineError("no answer within 2 s")

    caplog.set_level(logging.ERROR)
    with collect_uncaught() as heard:
        task = asyncio.create_task(late(), name="hwd:late")
        await asyncio.wait((task,))
        del task
        gc.collect()
        await asyncio.sleep(0)
    assert heard.counts == {}
    assert len(caplog.records) == 1
