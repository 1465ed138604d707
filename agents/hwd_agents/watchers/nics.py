"""What the NICs of this host are: driver and firmware, auto-negotiation, FEC. Read seldom, and never while a port is observed."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from hwd_agents.process.config import PortConfig
from hwd_agents.sources.setting_source import Setting
from hwd_agents.sources.sources import Sources
from hwd_drivers.core.errors import HwdError

EVERY_S: Final = 60.0
"""Somebody may change a NIC by hand, and nobody tells us."""
NAME: Final = "nics"


class Nics:
    """The last reading of each port. What cannot be read is None: it is not known.

    `busy`: whether a port is observed; a reading takes the kernel's lock of all interfaces, and may ask a NIC's firmware.
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
        self._read: dict[str, dict[str, Any]] = {}

    def hurry(self) -> None:
        """Something changed: read again now."""
        self._due.set()

    def to_data(self) -> dict[str, dict[str, Any]]:
        """By port: driver {name, version, firmware, bus}, autoneg (bool), speed_mbps, fec {auto, modes}; None for each that is not known."""
        return dict(self._read)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._due.clear()
            if not self._busy():
                found = {port: await self._look(config.interface) for port, config in self._ports.items()}
                if found != self._read:
                    self._read = found
                    self._on_change()
            try:
                async with asyncio.timeout(EVERY_S):
                    await self._due.wait()
            except TimeoutError:
                continue

    async def _look(self, interface: str) -> dict[str, Any]:
        autoneg = await self._setting(interface, Setting.AUTONEG)
        fec = await self._setting(interface, Setting.FEC)
        return {
            "driver": await self._driver(interface),
            "autoneg": None if autoneg is None else autoneg.get("autoneg"),
            "speed_mbps": None if autoneg is None else autoneg.get("speed"),
            "fec": fec,
        }

    async def _setting(self, interface: str, setting: Setting) -> Mapping[str, Any] | None:
        if self._sources.settings is None:
            return None
        try:
            state = await self._sources.settings.read(interface, setting, None)
        except (HwdError, OSError):  # the port has none, or is not there
            return None
        return state if isinstance(state, Mapping) else None

    async def _driver(self, interface: str) -> dict[str, str | None] | None:
        if self._sources.drivers is None:
            return None
        try:
            return (await self._sources.drivers.read_driver(interface)).to_data()
        except (HwdError, OSError):
            return None
