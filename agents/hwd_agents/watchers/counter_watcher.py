"""CounterWatcher: reports at a configured rate the traffic counters of each port."""

import logging
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from hwd_agents.process.config import PortConfig
from hwd_agents.sources.kernel.port_counters import CounterSource
from hwd_agents.spool.outbox import Emit
from hwd_agents.watchers.poll_timer import PollTimer
from hwd_agents.wire import COUNTER_MOST
from hwd_agents.wire.events import CounterData
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import HwdError
from hwd_drivers.core.reason import reason_of

SOURCE: Final = "counters"
_log = logging.getLogger(__name__)


class CounterWatcher:
    """The watcher of counters: events `counters`, one per port every `every_s` while they change, of an idle port none.

    `on_change` is called when some `why_not` has changed.
    """

    def __init__(
        self,
        ports: Mapping[str, PortConfig],
        source: CounterSource,
        clock: Clock,
        emit: Emit,
        *,
        every_s: float,
        origin: str,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._interfaces = {name: port.interface for name, port in ports.items()}
        self._source = source
        self._clock = clock
        self._emit = emit
        self._every_s = every_s
        self._origin = origin
        self._on_change = on_change
        self._last_data: dict[str, CounterData] = {}
        self._why_not: dict[str, str] = {}

    async def run(self) -> None:
        poll_timer = PollTimer()
        while True:
            again = await self._retransmissions()
            for port, interface in self._interfaces.items():
                await self._look(port, interface, again)
            await poll_timer.wait(self._every_s)

    def why_not(self, port: str) -> str:
        """Why the counters cannot be read; empty when they can."""
        return self._why_not.get(port, "")

    async def _retransmissions(self) -> int | None:
        try:
            again = await self._source.read_retransmissions()
        except HwdError as error:
            self._failed("retransmissions", str(error))
            return None
        if again is not None and not 0 <= again <= COUNTER_MOST:
            self._failed("retransmissions", f"{again} retransmissions are no counter of 64 bits")
            return None
        self._well("retransmissions")
        return again

    async def _look(self, port: str, interface: str, again: int | None) -> None:
        before_ns = self._clock.monotonic_ns()
        try:
            counters = await self._source.read_counters(interface)
            after_ns = self._clock.monotonic_ns()
            data = msgspec.structs.replace(counters, tcp_retransmissions=again)
        except (HwdError, OSError, ValueError) as error:  # the last: a count that no counter of 64 bits has
            self._failed(port, reason_of(error))
            return
        self._well(port)
        if data == self._last_data.get(port):
            return
        self._last_data[port] = data
        self._emit(
            "counters", port, earliest_ns=before_ns, at_ns=after_ns, source=SOURCE, origin=self._origin, data=data
        )

    def _failed(self, what: str, why: str) -> None:
        if self._why_not.get(what) != why:
            _log.info("%s: no counters: %s", what, why)
            self._why_not[what] = why
            self._on_change()

    def _well(self, what: str) -> None:
        if self._why_not.pop(what, None) is not None:
            _log.info("%s: its counters are read again", what)
            self._on_change()
