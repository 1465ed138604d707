"""LinkDetailWatcher: asks the NIC after each change of the carrier why the link is down, or how it came up."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from hwd_agents.process.config import PortConfig
from hwd_agents.sources.kernel.nic_link_details import KernelLinkDetails
from hwd_agents.spool.outbox import Emit
from hwd_agents.watchers.poll_timer import PollTimer
from hwd_agents.wire.events import LinkStateData
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import HwdError
from hwd_drivers.core.reason import reason_of

SOURCE: Final = "ethtool"
AGAIN_S: Final = 1.0
"""Asked again after this time: a firmware that has just lost its link does not know the reason yet."""
SLOW_S: Final = 30.0
"""Poll interval: somebody may change speed or FEC by hand while the link stays up."""
GAP_S: Final = 0.1
"""Least time between two questions to a flapping port: each takes the lock of all interfaces, on which carrier changes
wait.
"""
_log = logging.getLogger(__name__)


class LinkDetailWatcher:
    """The watcher of one port's link: events `link-state` when a value differs from the last report; the stamps are
    those around the question.

    The first reading makes no event: it is in the birth message. `details`: the last reading; None when it failed.
    `why_not`: why the link cannot be seen; empty when it can.
    """

    def __init__(
        self,
        name: str,
        config: PortConfig,
        source: KernelLinkDetails,
        clock: Clock,
        emit: Emit,
        *,
        origin: str,
        on_change: Callable[[], None],
    ) -> None:
        self._name = name
        self._interface = config.interface
        self._source = source
        self._clock = clock
        self._emit = emit
        self._origin = origin
        self._on_change = on_change
        self._poll_timer = PollTimer()
        self._again = False
        self._last_data: LinkStateData | None = None
        self.details: LinkStateData | None = None
        self.why_not = "not read yet"

    def changed(self) -> None:
        """Its carrier changed, or its interface was created or removed."""
        self._again = True
        self._poll_timer.hurry()

    async def run(self) -> None:
        while True:
            again, self._again = self._again, False
            await self._look()
            await asyncio.sleep(GAP_S)
            await self._poll_timer.wait(AGAIN_S if again else SLOW_S)

    async def _look(self) -> None:
        before_ns = self._clock.monotonic_ns()
        try:
            details = await self._source.read_details(self._interface)
        except (HwdError, OSError) as error:
            self._failed(reason_of(error))
            return
        after_ns = self._clock.monotonic_ns()
        last, self._last_data = self._last_data, details
        news = self.details != details or self.why_not
        self.details, self.why_not = details, ""
        if last is not None and last != details:
            self._emit(
                "link-state",
                self._name,
                earliest_ns=before_ns,
                at_ns=after_ns,
                source=SOURCE,
                origin=self._origin,
                data=details,
            )
        if news:
            self._on_change()

    def _failed(self, why: str) -> None:
        self.details = None
        if why != self.why_not:
            _log.info("%s: the state of its link is unseen: %s", self._name, why)
            self.why_not = why
            self._on_change()
