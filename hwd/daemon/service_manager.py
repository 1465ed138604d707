"""ServiceManager: tells systemd when the daemon is ready, how it is, when it reloads and stops; reloads at SIGHUP."""

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Final

from hwd.model.bodies import ReloadBody
from hwd.model.reload import ReloadReport
from hwd.model.status import Readiness
from hwd_agents.process.systemd import Notifier
from hwd_drivers.core.errors import HwdError

FIRST_LOOK_S: Final = 20.0
"""The longest wait for the first attempt at each switch: one that is away holds up no start."""
POLL_S: Final = 0.1
STATUS_S: Final = 2.0
"""The time between two looks at the readiness. Only a change is reported."""
ASKER: Final = "SIGHUP"

log = logging.getLogger(__name__)

ReloadTestbed = Callable[[ReloadBody], Coroutine[Any, Any, ReloadReport]]


class ServiceManager:
    """Does nothing where no service manager asked for it: SIGHUP then ends the process, as that of a closed terminal.

    `subject`: what this daemon runs. `looked`: whether each switch was read, or an attempt at it failed.

    ```
    manager = ServiceManager(notifier, subject="testbed lab", looked=daemon.looked, readiness=daemon.service.rack.ready)
    await manager.run(daemon.service.testbed.reload)
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

    async def run(self, reload: ReloadTestbed) -> None:
        """READY=1 after the first look at all switches, STATUS= at each change, until cancelled. Call it when the API
        listens.
        """
        if not self._notifier.has_manager:
            return
        loop, asked = asyncio.get_running_loop(), asyncio.Event()
        loop.add_signal_handler(signal.SIGHUP, asked.set)  # in place of the handler that ends the process
        until_s = loop.time() + FIRST_LOOK_S
        while not self._looked() and loop.time() < until_s:  # noqa: ASYNC110 - supervisors set no event at a failure
            await asyncio.sleep(POLL_S)
        self._notifier.ready(status := self.status)
        while True:
            try:
                async with asyncio.timeout(STATUS_S):
                    await asked.wait()
            except TimeoutError:
                if status != (status := self.status):
                    self._notifier.status(status)
                continue
            asked.clear()
            await self._reload(reload)

    @property
    def status(self) -> str:
        """`testbed lab: ready`, or all that is not."""
        found = self._readiness()
        return f"{self._subject}: ready" if found.ready else f"{self._subject}: not ready: {'; '.join(found.why)}"

    def stopping(self) -> None:
        """Report that the daemon stops in order."""
        self._notifier.stopping()

    async def _reload(self, reload: ReloadTestbed) -> None:
        """Take the file without a question, or log why not. `READY=1` ends the reload for systemd either way."""
        self._notifier.reloading()
        try:
            await reload(ReloadBody(by=ASKER))
        except HwdError as error:
            log.error("reload by SIGHUP: %s", error)
        finally:
            self._notifier.ready(self.status)
