"""ServiceManager: tells systemd when the daemon is ready, how it is, and when it reloads or stops."""

import asyncio
from collections.abc import Callable
from typing import Final

from hwd.model.answers import Readiness
from hwd_agents.process.systemd import Notifier

FIRST_LOOK_S: Final = 20.0
"""The longest wait for the first attempt at each switch: one that is away holds up no start."""
POLL_S: Final = 0.1
STATUS_S: Final = 2.0
"""The time between two looks at the readiness. Only a change is reported."""


class ServiceManager:
    """Sends nothing where no service manager asked for it.

    `subject`: what this daemon runs. `looked`: whether each switch was read, or an attempt at it failed.

    ```
    manager = ServiceManager(notifier, subject="testbed lab", looked=daemon.looked, readiness=daemon.service.ready)
    await manager.run()     # READY=1 after the first look at all switches; STATUS= at each change; until cancelled
    ```
    """

    def __init__(
        self,
        notifier: Notifier,
        *,
        subject: str,
        looked: Callable[[], bool],
        readiness: Callable[[], Readiness],
    ) -> None:
        self._notifier = notifier
        self._subject = subject
        self._looked = looked
        self._readiness = readiness

    async def run(self) -> None:
        """Until cancelled. Call it when the API listens."""
        if not self._notifier.has_manager:
            return
        loop = asyncio.get_running_loop()
        until_s = loop.time() + FIRST_LOOK_S
        while not self._looked() and loop.time() < until_s:
            await asyncio.sleep(POLL_S)
        self.ready(status := self.status)
        while True:
            await asyncio.sleep(STATUS_S)
            if status != (status := self.status):
                self._notifier.status(status)

    @property
    def status(self) -> str:
        """`testbed lab: ready`, or all that is not."""
        found = self._readiness()
        return f"{self._subject}: ready" if found.ready else f"{self._subject}: not ready: {'; '.join(found.why)}"

    def ready(self, status: str) -> None:
        """Report the end of the start, or of a reload."""
        self._notifier.ready(status)

    def reloading(self, *, monotonic_ns: int) -> None:
        """Report that a reload begins. `ready` must follow."""
        self._notifier.reloading(monotonic_ns=monotonic_ns)

    def stopping(self) -> None:
        """Report that the daemon stops in order."""
        self._notifier.stopping()
