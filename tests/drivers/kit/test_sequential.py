"""A twin of a small controller: one command after the other, a limit of those that wait, options that there are."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from hwd_drivers.kit.bench import Bench
from hwd_drivers.kit.errors import ConfigError
from hwd_drivers.kit.sequential import WAITING_MAX

Say = Callable[[bytes], Awaitable[bytes | None]]


def test_a_command_waits_until_the_one_before_it_is_done(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        assert await say(b"<OSW_OUT_02><OSW_OUT_?><OSW_OUT_03><OSW_OUT_?>") == b""
        heard = b""
        while not heard.endswith(b"<OSW_OUT_03>"):
            heard += await say(b"") or b""
        assert heard == b"<OSW_OUT_OK><OSW_OUT_02><OSW_OUT_OK><OSW_OUT_03>"
        assert loop.time() - started_s == pytest.approx(0.016, abs=0.0021)

    on_twin(story, "osw", "osw", "1x8")


def test_slow_answers_all_come_so_much_later_and_in_their_order(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        assert bench.twin is not None
        bench.twin.faults.slow_s = 0.5
        assert await say(b"type?\r\nch3\r\nch?\r\nch4\r\nch?\r\nfirmware?\r\n") == b""
        await asyncio.sleep(0.49)
        bench.twin.faults.slow_s = 0.0
        assert await say(b"type?\r\n") == b""  # not before those that are on their way
        heard = b""
        for _ in range(12):
            heard += await say(b"") or b""
        assert heard == b"eol 1x8\r\n3\r\n4\r\nV1.0\r\neol 1x8\r\n"

    on_twin(story, "leoni", "eol", "1x8")


def test_a_client_that_sends_more_than_can_wait_is_cut(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        assert await say(b"<OSW_OUT_02>" + b"<OSW_OUT_?>" * WAITING_MAX) is None

    on_twin(story, "osw", "osw", "1x8")


def test_an_option_that_there_is_not_is_refused_with_its_name(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        raise AssertionError("started")

    with pytest.raises(ConfigError, match="twin bench: answers: Extra inputs are not permitted"):
        on_twin(story, "osw", "osw", "1x8", answers="at-once")
