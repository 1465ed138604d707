"""Gaps: requests missing events again from their agents.

Events that do not come after several requests are lost, and those behind them are emitted.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from hwd.bus.containment import Containment
from hwd.bus.host_agent import HostAgent
from hwd_agents.wire import Reply, Resend, Resent
from hwd_drivers.core.errors import DeadlineError, LinkError, ProtocolError

TRIES, WITHIN_S, PAUSE_S = 3, 5.0, 1.0

log = logging.getLogger(__name__)

Command = Callable[[str, Resend], Awaitable[tuple[Reply, Resent | None]]]
"""`command(host, arguments)`; raises LinkError, DeadlineError or ProtocolError."""


class Gaps:
    """Requests the events of gaps, one request at a time for each boot.

    `full`: whether the sink takes no events now; no gap is skipped then. `lost(host, boot, first, last)` reports lost
    events, `pass_on(host, boot)` emits the events behind a gap.
    """

    def __init__(
        self,
        command: Command,
        *,
        full: Callable[[], bool],
        lost: Callable[[HostAgent, str, int, int], None],
        pass_on: Callable[[HostAgent, str], None],
        containment: Containment,
    ) -> None:
        self._containment = containment
        self._command = command
        self._full = full
        self._lost = lost
        self._pass_on = pass_on
        self._filling: set[tuple[str, str]] = set()

    def filling(self, host: HostAgent, boot: str) -> bool:
        return (host.name, boot) in self._filling

    def fill(self, host: HostAgent, boot: str) -> None:
        """Request the events of the intake's gap, unless a request is under way or the agent is down.

        An agent sends all unacknowledged events again when it reconnects.
        """
        if host.up and not self.filling(host, boot):
            fill = partial(self._fill, host, boot)
            if self._containment.begin(host.name, "its resends", fill, name="resend"):
                self._filling.add((host.name, boot))

    async def _fill(self, host: HostAgent, boot: str) -> None:
        intake = host.intakes[boot]
        tries, requested, deleted = 0, (0, 0), False
        try:
            while (gap := intake.gap) is not None:
                tries, requested = (tries + 1 if gap == requested else 1), gap
                if tries > TRIES:
                    break
                refused = host.allowance.events_refused
                asked = Resend(boot=boot, from_seq=gap[0], upto_seq=gap[1])
                try:
                    _, answer = await self._command(host.name, asked)
                    if deleted := answer is not None and answer.here == 0:
                        break
                except (DeadlineError, ProtocolError) as error:
                    log.debug("%s", error)
                except LinkError as error:  # on reconnecting it sends all unacknowledged events again
                    log.debug("%s", error)
                    return
                await asyncio.sleep(PAUSE_S)
                if host.allowance.events_refused != refused:  # they may have come, and were over the allowance
                    tries = 0
        finally:
            self._filling.discard((host.name, boot))
        if not self._full() and (gap := intake.skip_gap()) is not None and not (deleted and intake.was_gone(gap)):
            self._lost(host, boot, *gap)
        self._pass_on(host, boot)
