"""The cables of a virtual machine, against the words of QEMU's monitor (QMP) on a real socket; against QEMU
itself: tests/softroce.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hwd.twin.monitor import MachineMonitor
from hwd_drivers.core.clock import SystemClock

GREETING = {"QMP": {"version": {"qemu": {"major": 7, "minor": 2, "micro": 22}}, "capabilities": ["oob"]}}


class Qemu:
    """Takes commands, and keeps them; answers when it is told to."""

    def __init__(self, *, answers: bool = True, greeting: bytes = json.dumps(GREETING).encode()) -> None:
        self.answers = answers
        self.greeting = greeting
        self.cables: asyncio.Queue[tuple[str, bool]] = asyncio.Queue()
        self.writers: list[asyncio.StreamWriter] = []
        self.held: list[Any] = []
        self.met = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        self.met.set()
        writer.write(self.greeting + b"\r\n")
        while line := await reader.readline():
            asked = json.loads(line)
            self.held.append(asked["id"])
            writer.write(b'{"event": "NIC_RX_FILTER_CHANGED", "data": {}}\r\n')
            if self.answers:
                self.answer()
            if asked["execute"] == "set_link":
                self.cables.put_nowait((asked["arguments"]["name"], asked["arguments"]["up"]))
        writer.close()

    def answer(self, **what: object) -> None:
        for number in self.held:
            self.writers[-1].write(json.dumps({"id": number, **(what or {"return": {}})}).encode() + b"\r\n")
        self.held.clear()


@asynccontextmanager
async def running(qemu: Qemu, path: Path) -> AsyncIterator[None]:
    server = await asyncio.start_unix_server(qemu.serve, path)
    yield
    server.close()
    for writer in qemu.writers:
        writer.close()
    await server.wait_closed()
    path.unlink(missing_ok=True)


@pytest.fixture
async def monitor(tmp_path: Path) -> AsyncIterator[MachineMonitor]:
    made = MachineMonitor("h0", tmp_path / "monitor", SystemClock())
    task = asyncio.create_task(made.run())
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_machine_that_starts_is_told_of_its_cables_and_so_is_the_next(
    monitor: MachineMonitor, tmp_path: Path
) -> None:
    monitor.set("hwd-eth0", up=False, told=lambda *_: None)
    for _ in range(2):
        qemu = Qemu()
        async with running(qemu, tmp_path / "monitor"), asyncio.timeout(20):
            assert await qemu.cables.get() == ("hwd-eth0", False)


async def test_a_change_is_told_between_the_question_and_the_answer(monitor: MachineMonitor, tmp_path: Path) -> None:
    clock = SystemClock()
    told: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
    monitor.set("hwd-eth0", up=False, told=lambda *_: None)
    qemu = Qemu()
    async with running(qemu, tmp_path / "monitor"), asyncio.timeout(20):
        await qemu.cables.get()
        qemu.answers = False
        asked_ns = clock.monotonic_ns()
        monitor.set("hwd-eth0", up=True, told=lambda *stamps: told.put_nowait(stamps))
        assert await qemu.cables.get() == ("hwd-eth0", True)
        assert told.empty()
        answered_ns = clock.monotonic_ns()
        qemu.answer()
        before_ns, after_ns = await told.get()
    assert asked_ns <= before_ns < answered_ns <= after_ns


async def test_a_change_without_a_machine_is_reported_at_once(monitor: MachineMonitor) -> None:
    told: list[tuple[int, int]] = []
    monitor.set("hwd-eth0", up=True, told=lambda *stamps: told.append(stamps))
    ((before_ns, after_ns),) = told
    assert before_ns == after_ns


async def test_a_change_is_reported_if_the_machine_ends_before_its_answer(
    monitor: MachineMonitor, tmp_path: Path
) -> None:
    told: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
    monitor.set("hwd-eth0", up=False, told=lambda *_: None)
    qemu = Qemu()
    async with running(qemu, tmp_path / "monitor"), asyncio.timeout(20):
        await qemu.cables.get()
        qemu.answers = False
        monitor.set("hwd-eth0", up=True, told=lambda *stamps: told.put_nowait(stamps))
        await qemu.cables.get()
        qemu.writers[-1].close()
        await told.get()


async def test_a_refusal_is_said(monitor: MachineMonitor, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
    monitor.set("hwd-eth0", up=False, told=lambda *_: None)
    qemu = Qemu()
    async with running(qemu, tmp_path / "monitor"), asyncio.timeout(20):
        await qemu.cables.get()
        qemu.answers = False
        monitor.set("hwd-eth0", up=True, told=lambda *stamps: told.put_nowait(stamps))
        await qemu.cables.get()
        qemu.answer(error={"class": "DeviceNotFound", "desc": "Device 'hwd-eth0' not found"})
        await told.get()
    assert "h0: its machine refuses: Device 'hwd-eth0' not found" in caplog.text


@pytest.mark.parametrize("greeting", [b"not JSON", b"[]", b'{"hello": 1}'])
async def test_something_else_at_its_place_is_tried_again(
    monitor: MachineMonitor, tmp_path: Path, greeting: bytes
) -> None:
    monitor.set("hwd-eth0", up=False, told=lambda *_: None)
    other = Qemu(greeting=greeting)
    async with running(other, tmp_path / "monitor"), asyncio.timeout(20):
        await other.met.wait()
    qemu = Qemu()
    async with running(qemu, tmp_path / "monitor"), asyncio.timeout(20):
        assert await qemu.cables.get() == ("hwd-eth0", False)
