"""Lines of a GPIO chip through gpiod, on a simulated kernel: the requests, their times, and errors."""

import asyncio
import errno
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import gpiod
import pytest
from gpiod.line import Direction, Value

from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import DeadlineError, LinkError
from hwd_drivers.core.offload import ThreadOffload
from hwd_drivers.families.ttl.chip_lines import ChipLines, Use
from hwd_drivers.families.ttl.protocol import Pulse
from hwd_drivers.transports.dial import TcpDialer

from ...stage import Stage

PATH = "/dev/gpiochip7"
COILS, CONTACTS = (5, 6), (12, 13)


@dataclass
class Kernel:
    """Levels of the lines of one chip, and the calls, in order; a coil that goes high closes its contact."""

    levels: dict[int, bool] = field(default_factory=dict)
    done: list[tuple[str, Any]] = field(default_factory=list)
    held: bool = False
    failing: OSError | None = None

    def request(self, path: str, *, config: Mapping[int, gpiod.LineSettings], consumer: str) -> "Kernel":
        if self.failing is not None:
            raise self.failing
        if self.held:
            raise OSError(errno.EBUSY, "Device or resource busy")
        assert (path, consumer) == (PATH, "hwd ocs1")
        self.held = True
        self.reconfigure_lines(config)
        return self

    def reconfigure_lines(self, config: Mapping[int, gpiod.LineSettings]) -> None:
        for line, settings in config.items():
            if settings.direction is Direction.OUTPUT:
                self._put(line, settings.output_value is Value.ACTIVE)

    def get_values(self, lines: list[int]) -> list[Value]:
        self._may_fail()
        return [Value.ACTIVE if self.levels.get(line, False) else Value.INACTIVE for line in lines]

    def set_values(self, values: Mapping[int, Value]) -> None:
        self._may_fail()
        for line, value in values.items():
            self._put(line, value is Value.ACTIVE)

    def release(self) -> None:
        self.held = False

    def _put(self, line: int, level: bool) -> None:
        if self.levels.get(line) != level:
            self.done.append((f"{line}={level:d}", SystemClock().monotonic_ns()))
        self.levels[line] = level
        if level and line in COILS:
            self.levels |= {contact: coil == line for coil, contact in zip(COILS, CONTACTS, strict=True)}

    def _may_fail(self) -> None:
        if self.failing is not None:
            raise self.failing


class Chip:
    """In place of `gpiod.Chip`."""

    def __init__(self, path: str) -> None:
        assert path == PATH

    def __enter__(self) -> "Chip":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def get_info(self) -> SimpleNamespace:
        return SimpleNamespace(name="gpiochip7", label="pinctrl bcm2711", num_lines=58)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    kernel = Kernel()
    monkeypatch.setattr(gpiod, "request_lines", kernel.request)
    monkeypatch.setattr(gpiod, "Chip", Chip)
    return kernel


@pytest.fixture
def offload() -> Iterator[ThreadOffload]:
    offload = ThreadOffload(1)
    yield offload
    offload.close()


def soon(seconds: float = 5.0) -> float:
    return asyncio.get_running_loop().time() + seconds


async def open_lines(use: Use, offload: ThreadOffload) -> ChipLines:
    return await ChipLines.open(PATH, use, name="ocs1", clock=SystemClock(), offload=offload, deadline_s=soon())


def words(kernel: Kernel) -> list[str]:
    return [word for word, _ in kernel.done]


async def test_a_switch_on_a_chip_is_moved_by_a_pulse_of_its_width(kernel: Kernel) -> None:
    kernel.levels = {12: True, 13: False}
    async with Stage("ttl", "latching-1x2", "1", dialer=TcpDialer(), address=PATH) as stage:
        switch = await stage.open(parts=[{"pulse": COILS, "contacts": CONTACTS, "pulse_s": 0.03}])
        identity = await switch.identify()
        assert (identity.model, identity.serial) == ("pinctrl_bcm2711", "gpiochip7")
        assert identity.firmware.startswith("gpiod-")
        assert await switch.read() == ["in-1 tuned"]
        kernel.done.clear()
        commanded: list[int] = []
        exchange = await switch.change(remove="in-1", add="in-2", on_commanded=commanded.append)
        assert commanded == [exchange.commanded_ns]
        assert await switch.read() == ["in-2 tuned"]
    (rise, rose_ns), (fall, fell_ns) = kernel.done
    assert (rise, fall) == ("6=1", "6=0")
    assert fell_ns - rose_ns >= 30_000_000 * 0.99  # CLOCK_MONOTONIC_RAW is not the clock that the pause is on
    assert not kernel.held


async def test_getting_the_lines_leaves_a_held_part_where_it_is(kernel: Kernel, offload: ThreadOffload) -> None:
    kernel.levels = {4: True}
    lines = await open_lines(Use(held=(4,), idle={5: False, 6: True}, inputs=(12,)), offload)
    assert words(kernel) == ["5=0", "6=1"]
    assert await lines.read([4, 5, 6], deadline_s=soon()) == {4: True, 5: False, 6: True}
    await lines.close()


async def test_a_pulse_whose_caller_is_cancelled_ends_all_the_same(kernel: Kernel, offload: ThreadOffload) -> None:
    lines = await open_lines(Use(held=(), idle={5: False}, inputs=()), offload)
    kernel.done.clear()
    begun = asyncio.Event()
    pulse = asyncio.create_task(
        lines.carry_out(
            [Pulse(levels={5: True}, width_us=50_000)], deadline_s=soon(), on_sent=lambda at_ns: begun.set()
        )
    )
    await begun.wait()
    pulse.cancel()
    await asyncio.wait([pulse])
    await lines.close()  # the one thread does it after the pulse
    assert words(kernel) in ([], ["5=1", "5=0"])
    assert kernel.levels[5] is False


async def test_a_pulse_that_goes_wrong_still_tries_to_end(kernel: Kernel, offload: ThreadOffload) -> None:
    lines = await open_lines(Use(held=(), idle={5: False}, inputs=()), offload)
    kernel.failing = OSError(errno.ENODEV, "No such device")
    with pytest.raises(LinkError, match=r"ocs1: move: /dev/gpiochip7: No such device. The chip was removed"):
        await lines.carry_out([Pulse(levels={5: True}, width_us=1000)], deadline_s=soon())
    assert isinstance(await lines.lost(), LinkError)
    assert not kernel.held
    with pytest.raises(LinkError, match="No such device"):
        await lines.read([5], deadline_s=soon())
    await lines.close()


async def test_nothing_is_moved_after_its_deadline(kernel: Kernel, offload: ThreadOffload) -> None:
    lines = await open_lines(Use(held=(), idle={5: False}, inputs=()), offload)
    kernel.done.clear()
    told: list[int] = []
    with pytest.raises(DeadlineError, match="not done, its deadline is over"):
        await lines.carry_out([Pulse(levels={5: True}, width_us=1000)], deadline_s=soon(-1), on_sent=told.append)
    assert (kernel.done, told) == ([], [])
    await lines.close()


async def test_lines_that_another_program_has_are_named_as_such(kernel: Kernel, offload: ThreadOffload) -> None:
    kernel.held = True
    with pytest.raises(
        LinkError, match=r"cannot open /dev/gpiochip7: Device or resource busy. Another program .*gpioinfo"
    ):
        await open_lines(Use(held=(), idle={5: False}, inputs=()), offload)


async def test_a_missing_chip_is_reported_by_the_kernel() -> None:
    """No stand-in here: the real library asks the real kernel."""
    stage = Stage("ttl", "latching-1x2", "1", dialer=TcpDialer(), address="/dev/gpiochip_none")
    with pytest.raises(LinkError, match=r"cannot open /dev/gpiochip_none: .*gpiodetect"):
        await stage.open(parts=[{"pulse": COILS}])
