"""Nics: driver and firmware, auto-negotiation and FEC of this host's NICs; read rarely, never of an observed port."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from hwd_agents.process.config import PortConfig
from hwd_agents.sources.setting_source import Setting
from hwd_agents.sources.sources import Sources
from hwd_agents.wire import DriverNote, FecNote, NicNote
from hwd_drivers.core.errors import HwdError

EVERY_S: Final = 60.0
"""Re-read interval: somebody may change a NIC by hand, without a notice."""
NAME: Final = "nics"


class Nics:
    """The last reading of each port. A value that cannot be read is None: unknown.

    `busy`: whether a port is observed. A reading takes the kernel's lock of all interfaces, and may ask a NIC's
    firmware, so that it waits until no port is observed.
    """

    def __init__(
        self,
        ports: Mapping[str, PortConfig],
        sources: Sources,
        *,
        busy: Callable[[], bool],
        on_change: Callable[[], None],
    ) -> None:
        self._ports = ports
        self._sources = sources
        self._busy = busy
        self._on_change = on_change
        self._due = asyncio.Event()
        self.read: Mapping[str, NicNote] = {}
        """By port, as of the last reading."""

    def hurry(self) -> None:
        """Read again now, after a change."""
        self._due.set()

    async def run(self) -> None:
        """Look at the NICs until cancelled."""
        while True:
            self._due.clear()
            if not self._busy():
                found = {port: await self._look(config.interface) for port, config in self._ports.items()}
                if found != self.read:
                    self.read = found
                    self._on_change()
            try:
                async with asyncio.timeout(EVERY_S):
                    await self._due.wait()
            except TimeoutError:
                continue

    async def _look(self, interface: str) -> NicNote:
        autoneg = await self._setting(interface, Setting.AUTONEG)
        fec = await self._setting(interface, Setting.FEC)
        return NicNote(
            driver=await self._driver(interface),
            autoneg=None if autoneg is None else autoneg.get("autoneg"),
            speed_mbps=None if autoneg is None else autoneg.get("speed"),
            fec=None if fec is None else FecNote(auto=fec["auto"], modes=fec["modes"]),
        )

    async def _setting(self, interface: str, setting: Setting) -> Mapping[str, Any] | None:
        if self._sources.settings is None:
            return None
        try:
            state = await self._sources.settings.read(interface, setting, None)
        except (HwdError, OSError):  # the port has none, or is not there
            return None
        return state if isinstance(state, Mapping) else None

    async def _driver(self, interface: str) -> DriverNote | None:
        if self._sources.drivers is None:
            return None
        try:
            return await self._sources.drivers.read_driver(interface)
        except (HwdError, OSError):
            return None
