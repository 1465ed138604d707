"""The watchdog of a service manager is fed by a loop that turns in time, and by no other."""

import asyncio
import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from hwd.daemon.lag import LagWatch
from hwd.daemon.watchdog import Watchdog
from hwd_agents.process.systemd import Notifier
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop

PERIOD_S = 15.0


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket that systemd would listen on."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.setblocking(False)
        yield sock


def notifier(manager: socket.socket) -> Notifier:
    environment = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": str(int(PERIOD_S * 1e6))}
    return Notifier(environment, pid=1)


def beats(manager: socket.socket) -> int:
    count = 0
    while True:
        try:
            assert manager.recv(4096) == b"WATCHDOG=1"
        except BlockingIOError:
            return count
        count += 1


async def test_a_loop_that_turns_in_time_feeds_it_at_least_twice_in_a_period(
    manager: socket.socket, virtual_loop: VirtualLoop
) -> None:
    emit = Emitter(VirtualClock(virtual_loop, wall_start_ns=0), lambda _: None)
    watching = asyncio.create_task(LagWatch(emit, Watchdog(notifier(manager)).feed).run())
    for _ in range(10):
        await asyncio.sleep(PERIOD_S)
        assert 2 <= beats(manager) <= 3
    watching.cancel()
    await asyncio.wait([watching])


async def test_a_loop_that_stays_late_does_not_feed_it_and_that_is_logged_once(
    manager: socket.socket, virtual_loop: VirtualLoop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    watchdog = Watchdog(notifier(manager))
    for _ in range(6):
        await asyncio.sleep(6.0)
        watchdog.feed(5.9)
    assert beats(manager) == 0
    watchdog.feed(0.1)
    assert beats(manager) == 1
    (said,) = caplog.messages
    assert "a turn came 5.9 s late, over 5.0 s" in said


async def test_without_a_watchdog_nothing_is_sent(manager: socket.socket, virtual_loop: VirtualLoop) -> None:
    Watchdog(Notifier({"NOTIFY_SOCKET": manager.getsockname()}, pid=1)).feed(0.0)
    assert beats(manager) == 0
