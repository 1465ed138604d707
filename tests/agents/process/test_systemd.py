"""What systemd hears, over a real datagram socket."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hwd_agents.process.systemd import BEATS, Notifier

from .test_main import COMMAND, GOOD


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket that systemd would listen on."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.setblocking(False)
        yield sock


async def heard(manager: socket.socket, word: str) -> list[str]:
    """All that is said, up to `word`."""
    said: list[str] = []
    async with asyncio.timeout(20):
        while not said or said[-1] != word:
            said.append((await asyncio.get_running_loop().sock_recv(manager, 4096)).decode())
    return said


async def test_an_agent_says_that_it_is_ready_alive_and_stopping(manager: socket.socket, tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(GOOD.format(folder=tmp_path))
    environment = {**os.environ, "NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "150000"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, *COMMAND, str(path), "--log", "error", env=environment
    )
    before = await heard(manager, "READY=1\nSTATUS=h0 of testbed tb")
    assert (tmp_path / "spool" / "events").exists(), "ready before the spool was open"
    assert set(before[:-1]) <= {"WATCHDOG=1"}
    for _ in range(2 * BEATS):
        assert await heard(manager, "WATCHDOG=1") == ["WATCHDOG=1"]
    process.send_signal(signal.SIGTERM)
    assert set((await heard(manager, "STOPPING=1"))[:-1]) <= {"WATCHDOG=1"}
    assert await process.wait() == 0


async def test_a_watchdog_hears_several_beats_in_each_of_its_periods(manager: socket.socket) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "90000"}, pid=1)
    loop = asyncio.get_running_loop()
    beating = asyncio.create_task(notifier.keep_alive())
    try:
        await heard(manager, "WATCHDOG=1")
        began_s = loop.time()
        for _ in range(BEATS):
            await heard(manager, "WATCHDOG=1")
        assert loop.time() - began_s >= 0.09 - 0.001
        assert notifier.period_s == 0.09
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)


async def test_no_watchdog_of_ours_is_none() -> None:
    others = {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "2"}
    for environment in ({}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "soon"}, others):
        notifier = Notifier(environment, pid=1)
        await notifier.keep_alive()
        assert notifier.period_s == 0


def test_a_manager_that_is_gone_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}, pid=1)
    notifier.ready("h0")
    notifier.stopping()
    assert caplog.messages == ["cannot send READY=1 to the service manager: No such file or directory"]


async def test_words_of_a_device_begin_no_message_of_their_own(manager: socket.socket) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.getsockname()}, pid=1)
    notifier.status("not ready: ocs1: bad\nWATCHDOG=trigger\r\nMAINPID=1")
    assert (await heard(manager, "STATUS=not ready: ocs1: bad WATCHDOG=trigger MAINPID=1")) != []
    notifier.reloading()
    assert await heard(manager, "RELOADING=1") == ["RELOADING=1"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as abstract:
        abstract.bind("")  # the kernel chooses an abstract name
        abstract.setblocking(False)
        Notifier({"NOTIFY_SOCKET": f"@{abstract.getsockname()[1:].decode()}"}, pid=1).stopping()
        assert await heard(abstract, "STOPPING=1") == ["STOPPING=1"]
