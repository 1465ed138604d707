"""A latching part on the kernel's simulated GPIO chip (`gpio-sim`), where it is available.

It needs `modprobe gpio-sim`, configfs and root.
"""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hwd_drivers.transports.dial import TcpDialer

from ...stage import Stage

CONFIG = Path("/sys/kernel/config/gpio-sim")
COILS, CONTACTS = (0, 1), (2, 3)
LOOK_S = 0.001


class Part:
    """The relay: each look at its coils moves its contacts, which are pulled as they would be."""

    def __init__(self, lines: Path) -> None:
        self._lines = lines
        self.put(0)

    async def run(self) -> None:
        while True:
            for state, coil in enumerate(COILS):
                if (self._lines / f"sim_gpio{coil}/value").read_text().strip() == "1":
                    self.put(state)
            await asyncio.sleep(LOOK_S)

    def put(self, state: int) -> None:
        for number, contact in enumerate(CONTACTS):
            pull = "pull-up" if number == state else "pull-down"
            (self._lines / f"sim_gpio{contact}/pull").write_text(pull)


@pytest.fixture
def chip() -> Iterator[tuple[str, Path]]:
    """The device of a chip of eight lines, and where its lines are played."""
    if not CONFIG.is_dir() or not os.access(CONFIG, os.W_OK):
        pytest.skip(f"gpio-sim: no {CONFIG} that can be written; it needs root, configfs and `modprobe gpio-sim`")
    device = CONFIG / f"hwd-{os.getpid()}"
    bank = device / "bank0"
    bank.mkdir(parents=True)
    try:
        (bank / "num_lines").write_text("8")
        (device / "live").write_text("1")
        name = (bank / "chip_name").read_text().strip()
        platform = (device / "dev_name").read_text().strip()
        yield f"/dev/{name}", Path("/sys/devices/platform") / platform / name
    finally:
        (device / "live").write_text("0")
        bank.rmdir()
        device.rmdir()


async def test_a_latching_part_on_the_kernels_simulated_chip_moves_and_reports_it(chip: tuple[str, Path]) -> None:
    path, lines = chip
    part = Part(lines)
    playing = asyncio.create_task(part.run())
    try:
        async with Stage("ttl", "latching-1x2", "1", dialer=TcpDialer(), address=path) as stage:
            switch = await stage.open(parts=[{"pulse": COILS, "contacts": CONTACTS, "pulse_s": 0.05}])
            for old, new in (("in-1", "in-2"), ("in-2", "in-1")):
                assert await switch.read() == [f"{old} tuned"]
                await switch.change(remove=old, add=new)
    finally:
        playing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await playing
