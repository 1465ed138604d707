"""Notifier: what systemd is told of this process: that it is ready, that its event loop turns, that it stops (sd_notify(3), "Notes")."""

import asyncio
import logging
import socket
from collections.abc import Mapping
from typing import Final

BEATS: Final = 3
"""Signs of life in each watchdog period: systemd asks for two (sd_watchdog_enabled(3)), and one may come late on a busy host."""

_log = logging.getLogger(__name__)


class Notifier:
    """Says nothing where no service manager asked for it.

    notifier = Notifier(os.environ, pid=os.getpid())
    notifier.ready("h0 of lab")
    await notifier.keep_alive()     # for ever: a loop that hangs says nothing, and is killed and started again
    """

    def __init__(self, environment: Mapping[str, str], *, pid: int) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._failed = False
        microseconds = environment.get("WATCHDOG_USEC", "0")
        ours = environment.get("WATCHDOG_PID", str(pid)) == str(pid)
        self.period_s = int(microseconds) / 1e6 if ours and microseconds.isdigit() else 0.0
        """The watchdog's; 0 where there is none, or it is another process's."""

    def ready(self, status: str) -> None:
        """It does now what it is there for."""
        self._send(f"READY=1\nSTATUS={status}")

    def stopping(self) -> None:
        """It was told to end, and does so in order."""
        self._send("STOPPING=1")

    async def keep_alive(self) -> None:
        """Tell the watchdog, from the loop itself, until cancelled."""
        while self.period_s > 0:
            self._send("WATCHDOG=1")
            await asyncio.sleep(self.period_s / BEATS)

    def _send(self, text: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as sock:
                sock.sendto(text.encode(), self._address)
            self._failed = False
        except OSError as error:
            if not self._failed:
                _log.warning("the service manager cannot be told %s: %s", text.partition("\n")[0], error.strerror)
            self._failed = True
