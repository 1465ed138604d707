"""Acks: acknowledges events to the agents once they are durable, so that the agents may delete them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from hwd_drivers.core.errors import HwdError

RETRY_S = 1.0
GATHER_S = 0.05
"""An acknowledgement waits this long for others, so that the records are written once for all of them."""

log = logging.getLogger(__name__)


class Acks:
    """The acknowledgements that are due, by host and boot.

    `durable` returns when all emitted events are durable, or raises HwdError. `send(host, boot, upto)` sends one.
    """

    def __init__(
        self, *, durable: Callable[[], Awaitable[None]] | None, send: Callable[[str, str, int], Awaitable[object]]
    ) -> None:
        self._durable = durable
        self._send = send
        self._owed: dict[tuple[str, str], int] = {}
        self._due = asyncio.Event()
        self._is_refused = False

    def owe(self, host: str, boot: str, upto: int) -> None:
        """All events up to and including `upto` were emitted: acknowledge them when they are durable."""
        self._owed[host, boot] = upto
        self._due.set()

    def owes(self, host: str, boot: str) -> bool:
        return (host, boot) in self._owed

    async def run(self) -> None:
        while True:
            await self._due.wait()
            await asyncio.sleep(GATHER_S)
            self._due.clear()
            owed = dict(self._owed)
            try:
                if self._durable is not None:
                    await self._durable()
            except HwdError as error:
                if not self._is_refused:
                    log.warning("events are not acknowledged, and tried again every second: %s", error)
                self._is_refused = True
                await asyncio.sleep(RETRY_S)
                self._due.set()
                continue
            if self._is_refused:
                self._is_refused = False
                log.info("events are acknowledged again")
            for (host, boot), upto in owed.items():
                if self._owed.get((host, boot)) == upto:
                    del self._owed[host, boot]
                await self._send(host, boot, upto)
