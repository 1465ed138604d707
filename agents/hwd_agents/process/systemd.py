"""Notifier: tells systemd that this process is ready, that its event loop runs, and that it stops (sd_notify(3))."""

import asyncio
import logging
import socket
from collections.abc import Mapping
from typing import Final

BEATS: Final = 3
"""Watchdog messages in each period: systemd asks for two (sd_watchdog_enabled(3)); a busy host may delay one."""

_log = logging.getLogger(__name__)


class Notifier:
    """Sends nothing when no service manager asked for it.

    notifier = Notifier(os.environ, pid=os.getpid())
    notifier.ready("h0 of lab")
    await notifier.keep_alive()     # for ever: a loop that hangs sends nothing, and systemd restarts the process
    """

    def __init__(self, environment: Mapping[str, str], *, pid: int) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._failed = False
        microseconds = environment.get("WATCHDOG_USEC", "0")
        ours = environment.get("WATCHDOG_PID", str(pid)) == str(pid)
        self.period_s = int(microseconds) / 1e6 if ours and microseconds.isdigit() else 0.0
        """The watchdog's period; 0 when there is none, or it is for another process."""

    def ready(self, status: str) -> None:
        """Report that the process has started."""
        self._send(f"READY=1\nSTATUS={_one_line(status)}")

    @property
    def has_manager(self) -> bool:
        """Whether a service manager started this process and listens."""
        return bool(self._address)

    def status(self, status: str) -> None:
        """Report how the process is, in one line: `systemctl status` shows it."""
        self._send(f"STATUS={_one_line(status)}")

    def reloading(self) -> None:
        """Report that a reload begins; `ready` reports its end. For units of `Type=notify`."""
        self._send("RELOADING=1")

    def stopping(self) -> None:
        """Report that the process is stopping in order."""
        self._send("STOPPING=1")

    def beat(self) -> None:
        """Send one watchdog message."""
        self._send("WATCHDOG=1")

    async def keep_alive(self) -> None:
        """Send watchdog messages from the event loop, until cancelled."""
        while self.period_s > 0:
            self.beat()
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
                _log.warning("cannot send %s to the service manager: %s", text.partition("\n")[0], error.strerror)
            self._failed = True


def _one_line(text: str) -> str:
    """A line break would begin another message: a device chooses what stands in its error."""
    return " ".join(text.split())
