"""Gaps: asks agents again for events that are missing before others that came.

What does not come is lost, and the rest goes on.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from hwd.bus.containment import Contain
from hwd.bus.host import Host
from hwd_agents.wire import Reply
from hwd_drivers.core.errors import DeadlineError, LinkError, ProtocolError

TRIES, WITHIN_S, PAUSE_S = 3, 5.0, 1.0

log = logging.getLogger(__name__)

Command = Callable[[str, str, dict[str, Any]], Awaitable[Reply]]
"""`command(host, verb, arguments)`; raises LinkError or DeadlineError."""


class Gaps:
    """`full`: whether the sink takes no events now: then none is given up.

    `lost(host, boot, first, last)` tells, `pass_on(host, boot)` goes on.
    """

    def __init__(
        self,
        command: Command,
        *,
        full: Callable[[], bool],
        lost: Callable[[Host, str, int, int], None],
        pass_on: Callable[[Host, str], None],
        contain: Contain,
    ) -> None:
        self._contain = contain
        self._command = command
        self._full = full
        self._lost = lost
        self._pass_on = pass_on
        self._filling: set[tuple[str, str]] = set()

    def filling(self, host: Host, boot: str) -> bool:
        return (host.name, boot) in self._filling

    def fill(self, host: Host, boot: str, tasks: asyncio.TaskGroup) -> None:
        """Begin, where it is not under way; a host that is down sends all again when it comes back."""
        if host.intakes[boot].gap is not None and host.up and not self.filling(host, boot):
            self._filling.add((host.name, boot))
            tasks.create_task(self._fill(host, boot), name=f"hwd:{host.name}/resend")

    async def _fill(self, host: Host, boot: str) -> None:
        with self._contain(host.name, "its resends"):
            await self._ask(host, boot)

    async def _ask(self, host: Host, boot: str) -> None:
        intake = host.intakes[boot]
        tries, asked, gone = 0, (0, 0), False
        try:
            while (gap := intake.gap) is not None:
                tries, asked = (tries + 1 if gap == asked else 1), gap
                if tries > TRIES:
                    break
                refused = host.allowance.events_refused
                arguments = {"boot": boot, "from_seq": gap[0], "upto_seq": gap[1]}
                try:
                    reply = await self._command(host.name, "resend", arguments)
                    if gone := reply.data.get("here") == 0:
                        break
                except (DeadlineError, ProtocolError) as error:
                    log.debug("%s", error)
                except LinkError as error:  # when it comes back, it sends all again that was not acknowledged
                    log.debug("%s", error)
                    return
                await asyncio.sleep(PAUSE_S)
                if host.allowance.events_refused != refused:  # they may have come, and were too much
                    tries = 0
        finally:
            self._filling.discard((host.name, boot))
        if not self._full() and (gap := intake.skip_gap()) is not None and not (gone and intake.was_gone(gap)):
            self._lost(host, boot, *gap)
        self._pass_on(host, boot)
