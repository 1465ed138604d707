"""A twin of a small controller: one command after the other, a limit of those that wait, options that there are."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from hwd_drivers.conformance.bench import Bench
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.devices.abilities import CrossConnects
from hwd_drivers.families.dicon.mems.protocol import Plain
from hwd_drivers.families.dicon.mems.twin import MemsTwin
from hwd_drivers.twins.sequential import WAITING_MAX

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

    with pytest.raises(ConfigError, match="twin bench: answers: is an unknown field"):
        on_twin(story, "osw", "osw", "1x8", answers="at-once")


def test_what_it_was_about_to_say_of_the_time_before_is_gone_after_a_reboot(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        assert bench.twin is not None
        await say(b"S 2\nS?\nS 1\n")  # the next S? would tell 2
        bench.twin.faults.reboot(0.5)
        await asyncio.sleep(1)
        device = await bench.open()
        assert isinstance(device, CrossConnects)
        readings = await device.read_crossconnects(deadline_s=asyncio.get_running_loop().time() + 1)
        assert [str(each.crossconnect) for each in readings] == ["in-1"]
        await device.close()

    on_twin(story, "thorlabs-osw", "osw12")


def test_the_echo_of_a_module_is_as_it_was_delivered_after_a_reboot(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        assert bench.twin is not None
        assert await say(b"EO 1\rI1?\r") == b"I1?\n1\r\n"
        bench.twin.faults.reboot(0.5)
        await asyncio.sleep(1)
        assert isinstance(bench.twin, MemsTwin)
        assert bench.twin.answer(Plain.CHANNEL) == (b"\n1\r\n", 0.0)

    on_twin(story, "dicon-mems", "mems", "1x8")
