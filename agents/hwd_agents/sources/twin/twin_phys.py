"""The PHYs of a twin host, over its wire: on this machine, or on another one, whose stamps cannot be used."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from typing_extensions import override

from hwd_agents.sources.twin import hostwire
from hwd_agents.wire import SourceNote
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import HwdError

ASK_EVERY_S: Final = 0.02
"""Longest time between a PHY change on a remote twin and the state known before it, without the network delay."""

_log = logging.getLogger(__name__)


class TwinPhys:
    """PhySource; the bounds of a change are those of `TwinLinks`."""

    note: SourceNote
    polled = False

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._on_change: Callable[[str, bool, int, int], None] | None = None
        self._known: dict[str, tuple[bool, int, int]] = {}  # by interface: up, earliest_ns, at_ns
        self._held_ns: dict[str, int] = {}

    def observe(self, interface: str, on: bool) -> None:
        """Nothing to do: it reports each change anyway."""

    def why_not(self, interface: str) -> str:
        """The reason in its note: the twin reports all PHYs or none."""
        return self.note.why_not

    async def open_phy(self, on_change: Callable[[str, bool, int, int], None], on_note: Callable[[], None]) -> None:
        """Report each PHY as it is now, then each change. `run` of TwinSources reports a change of the note."""
        self._on_change = on_change
        for interface, (up, earliest_ns, at_ns) in self._known.items():
            on_change(interface, up, earliest_ns, at_ns)

    def take(self, frame: hostwire.PhyReport) -> None:
        at_ns = self._clock.monotonic_ns()
        stamp_ns = min(at_ns, self._clock.kernel_bounds_ns(frame.stamp_ns)[0])
        held_ns = self._held_ns.get(frame.interface, stamp_ns)
        earliest_ns = held_ns if frame.snapshot else max(held_ns, stamp_ns)
        self._held_ns[frame.interface] = max(held_ns, stamp_ns)
        self._tell(frame, earliest_ns, at_ns)

    def answered(self, asked_ns: int) -> None:
        """The twin answered what it was asked at `asked_ns`: its stamps say more than that."""

    def _tell(self, frame: hostwire.PhyReport, earliest_ns: int, at_ns: int) -> None:
        self._known[frame.interface] = (frame.up, earliest_ns, at_ns)
        if self._on_change is not None:
            self._on_change(frame.interface, frame.up, earliest_ns, at_ns)


class DistantPhys(TwinPhys):
    """PhySource of a twin on another machine.

    Answers and reports arrive in one order: a change that arrives after an answer happened after that question was
    asked. So the twin is asked often while a port is observed: `ask` requests its PHYs and returns after the answer.
    """

    def __init__(self, ask: Callable[[], Awaitable[None]], clock: Clock) -> None:
        super().__init__(clock)
        self._ask = ask
        self._asked_ns: int | None = None
        self._observed: set[str] = set()
        self._hurry = asyncio.Event()

    @override
    def observe(self, interface: str, on: bool) -> None:
        """Poll often, or not at all."""
        (self._observed.add if on else self._observed.discard)(interface)
        if on:
            self._hurry.set()

    @override
    async def open_phy(self, on_change: Callable[[str, bool, int, int], None], on_note: Callable[[], None]) -> None:
        """Report each PHY as it is now, then each change, until cancelled."""
        await super().open_phy(on_change, on_note)
        while True:
            self._hurry.clear()
            if not self._observed:
                await self._hurry.wait()
            try:
                await self._ask()
            except HwdError as error:
                _log.debug("could not ask the twin for its PHYs: %s", error)
            await asyncio.sleep(ASK_EVERY_S)

    @override
    def answered(self, asked_ns: int) -> None:
        """Record that what the twin had reported before this answer was still true when it was asked."""
        self._asked_ns = asked_ns if self._asked_ns is None else max(asked_ns, self._asked_ns)

    @override
    def take(self, frame: hostwire.PhyReport) -> None:
        """Take the twin's report of a PHY; ignore one that changes nothing."""
        at_ns = self._clock.monotonic_ns()
        known = self._known.get(frame.interface)
        if known is None or known[0] != frame.up:
            since_ns = at_ns if self._asked_ns is None else self._asked_ns
            self._tell(frame, since_ns - frame.age_ns, at_ns)
