"""LinkUp: waits until ports of this host have carrier on the crossconnects that their switches were just set to."""

import asyncio
import math
from collections.abc import Iterable
from typing import Final

from hwd_agents.sources.link_source import LinkReading
from hwd_agents.watchers.link_watcher import LinkWatcher
from hwd_agents.wire import PortUp
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import HwdError

LOOK_S: Final = 0.02
"""Poll interval besides the kernel's notices: the kernel delays some by up to a second, but answers at once."""


class LinkUp:
    """The ports of one selection, from just before its first command.

        watch = LinkUp(link, clock, ["eth0"])
        await watch.look()                     # else delayed notices of earlier flaps would be taken for new ones
        watch.moved(["eth0"])                  # as its switch is commanded
        watch.acknowledged(["eth0"])           # as it has answered
        await watch.wait(fall_s=0.25, until_s=loop.time() + 1)
        watch.close()

    A port whose switch moved is up when its carrier came after the command: a carrier that was there before must have
    fallen and come again, by the kernel's own count. If it is unchanged at a poll `fall_s` or more after the answer, it
    counts as never lost. A port whose switch was already set as wanted is up when it has carrier.
    """

    def __init__(self, link: LinkWatcher, clock: Clock, ports: Iterable[str]) -> None:
        self._link = link
        self._clock = clock
        self._ports = dict.fromkeys(ports)
        self._before: dict[str, LinkReading | None] = {}
        self._commanded_ns: dict[str, int] = {}
        self._answered_s: dict[str, float] = {}
        self._fell_ns: dict[str, int] = {}
        self._looked_s = -math.inf
        self._changed = asyncio.Event()
        link.on_carrier.append(self._take)

    def close(self) -> None:
        self._link.on_carrier.remove(self._take)

    def moved(self, ports: Iterable[str]) -> None:
        """Call it before a command to the switch in front of these ports."""
        now_ns = self._clock.monotonic_ns()
        for port in ports:
            if port not in self._before:
                self._before[port] = self._link.reading(port)
                self._commanded_ns[port] = now_ns

    def acknowledged(self, ports: Iterable[str]) -> None:
        """Note that the switch has answered."""
        now_s = asyncio.get_running_loop().time()
        self._answered_s |= dict.fromkeys(ports, now_s)

    async def wait(self, *, fall_s: float, until_s: float) -> bool:
        """Wait until all are up; False when the loop's clock reached `until_s` first."""
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            now_s = loop.time()
            if self.all_up(fall_s=fall_s):
                return True
            if now_s >= until_s:
                return False
            try:
                async with asyncio.timeout_at(min(until_s, now_s + LOOK_S)):
                    await self._changed.wait()
            except TimeoutError:
                await self.look()

    def all_up(self, *, fall_s: float) -> bool:
        """Whether all are up now."""
        return all(self._is_up(port, fall_s) for port in self._ports)

    def result(self, *, fall_s: float) -> dict[str, PortUp]:
        """The result for each port, as of now."""
        return {port: self._one(port, fall_s) for port in self._ports}

    async def look(self) -> None:
        """Read the ports now."""
        asked_s = asyncio.get_running_loop().time()
        try:
            if await self._link.refresh(self._ports):
                self._looked_s = asked_s
        except (HwdError, OSError):
            return  # the watcher's own run meets the same error, reports it in the birth message and reopens its source

    def _take(self, port: str, reading: LinkReading) -> None:
        if port in self._ports:
            if not reading.carrier and port in self._before:
                self._fell_ns.setdefault(port, reading.at_ns)
            self._changed.set()

    def _is_up(self, port: str, fall_s: float) -> bool:
        return self._came(port) or self._is_kept(port, fall_s)

    def _came(self, port: str) -> bool:
        """Whether its carrier is there, and came after the command if its switch moved."""
        reading = self._link.reading(port)
        if reading is None or not reading.present or not reading.carrier:
            return False
        if port not in self._commanded_ns:
            return True
        before = self._before[port]
        if before is None or not before.present or before.ifindex != reading.ifindex:
            return reading.at_ns >= self._commanded_ns[port]
        return reading.changes_since(before) >= (2 if before.carrier else 1)

    def _is_kept(self, port: str, fall_s: float) -> bool:
        reading, before = self._link.reading(port), self._before.get(port)
        if before is None or reading is None or not (before.carrier and reading.carrier and reading.present):
            return False
        answered_s = self._answered_s.get(port)
        return answered_s is not None and self._looked_s >= answered_s + fall_s and not reading.changes_since(before)

    def _one(self, port: str, fall_s: float) -> PortUp:
        reading = self._link.reading(port)
        if self._came(port) and reading is not None:
            return PortUp(
                up=True,
                kept=port not in self._commanded_ns,
                fell_ns=self._fell_ns.get(port),
                earliest_ns=reading.earliest_ns,
                at_ns=reading.at_ns,
            )
        if self._is_kept(port, fall_s):
            return PortUp(up=True, kept=True, why="its carrier never fell")
        return PortUp(up=False, fell_ns=self._fell_ns.get(port), why=self._why_not(port, reading))

    def _why_not(self, port: str, reading: LinkReading | None) -> str:
        if reading is None or not reading.present:
            return self._link.why_not(port) or "its interface is not there"
        if not reading.admin_up:
            return "its interface is switched off"
        if not reading.carrier:
            return "no carrier: no light comes, or the neighbour has not switched yet"
        return "it has carrier, and that has not fallen since its switch was set"
