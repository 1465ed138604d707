"""DistantPhys: the PHYs of a twin host whose twin runs on another machine, so that its stamps cannot be used."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from hwd_agents.sources.twin import hostwire
from hwd_agents.wire import SourceNote
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import HwdError

ASK_EVERY_S: Final = 0.02
"""Longest time between a PHY change on a remote twin and the state known before it, without the network delay."""

_log = logging.getLogger(__name__)


class DistantPhys:
    """PhySource.

    Answers and reports arrive in one order: a change that arrives after an answer happened after that question was
    asked. So the twin is asked often while a port is observed: `ask` requests its PHYs and returns after the answer.
    """

    note: SourceNote
    polled = False

    def __init__(self, ask: Callable[[], Awaitable[None]], clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self._on_change: Callable[[str, bool, int, int], None] | None = None
        self._known: dict[str, tuple[bool, int, int]] = {}  # by interface: up, earliest_ns, at_ns
        self._asked_ns: int | None = None
        self._observed: set[str] = set()
        self._hurry = asyncio.Event()

    def observe(self, interface: str, on: bool) -> None:
        """Poll often, or not at all."""
        (self._observed.add if on else self._observed.discard)(interface)
        if on:
            self._hurry.set()

    def why_not(self, interface: str) -> str:
        """The reason in its note: the twin reports all PHYs or none."""
        return self.note.why_not

    async def open_phy(self, on_change: Callable[[str, bool, int, int], None], on_note: Callable[[], None]) -> None:
        """Report each PHY as it is now, then each change, until cancelled."""
        self._on_change = on_change
        for interface, (up, earliest_ns, at_ns) in self._known.items():
            on_change(interface, up, earliest_ns, at_ns)
        while True:
            self._hurry.clear()
            if not self._observed:
                await self._hurry.wait()
            try:
                await self._ask()
            except HwdError as error:
                _log.debug("could not ask the twin for its PHYs: %s", error)
            await asyncio.sleep(ASK_EVERY_S)

    def answered(self, asked_ns: int) -> None:
        """Record that what the twin had reported before this answer was still true when it was asked."""
        self._asked_ns = asked_ns if self._asked_ns is None else max(asked_ns, self._asked_ns)

    def take(self, frame: hostwire.PhyReport) -> None:
        """Take the twin's report of a PHY; ignore one that changes nothing."""
        at_ns = self._clock.monotonic_ns()
        known = self._known.get(frame.interface)
        if known is not None and known[0] == frame.up:
            return
        since_ns = at_ns if self._asked_ns is None else self._asked_ns
        self._known[frame.interface] = (frame.up, since_ns - frame.age_ns, at_ns)
        if self._on_change is not None:
            self._on_change(frame.interface, frame.up, since_ns - frame.age_ns, at_ns)
