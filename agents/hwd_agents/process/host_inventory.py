"""Inventory: what the birth message says of a host in addition to its ports."""

import os
from collections.abc import Mapping
from typing import Any

from hwd_agents.process.config import AgentConfig
from hwd_agents.sources.sources import Sources
from hwd_agents.spool.spool import Spool
from hwd_agents.switches.own_switches import SOCKET
from hwd_agents.watchers.nics import Nics
from hwd_agents.watchers.watchers import Watchers
from hwd_agents.wire import Inventory as Found
from hwd_agents.wire import ModuleNote, NicNote, clipped
from hwd_drivers.core.structs import to_plain


class Inventory:
    """Reads again at each call, but only what the watchers have read already."""

    def __init__(self, config: AgentConfig, sources: Sources, watchers: Watchers, nics: Nics, spool: Spool) -> None:
        self._config = config
        self._sources = sources
        self._watchers = watchers
        self._nics = nics
        self._spool = spool

    def news(self) -> tuple[Mapping[str, ModuleNote], Mapping[str, NicNote], str, str]:
        """The parts whose change is worth another birth message."""
        return self._modules(), self._nics.read, self._spool.trouble, self._watchers.broken.get(SOCKET, "")

    def read(self, *, garbage: int) -> Found:
        """The whole inventory, for a birth message."""
        system = os.uname()
        ports, watchers = self._config.ports, self._watchers
        found: dict[str, Any] = {
            "kernel": f"{system.sysname} {system.release}",
            "machine": system.machine,
            "life": self._sources.life(),
            "modules": self._modules(),
            "monitors": {port: optics.monitors() for port, optics in watchers.optics.items()},
            "links": {port: link.details for port, link in watchers.details.items()},
            "nics": self._nics.read,
            "states": {port: watchers.states(port) for port in ports},
            "spool": {
                "bytes": self._spool.size_bytes,
                "limit_bytes": self._config.spool.limit_bytes,
                "failures": self._spool.disk_failures,
                "why": self._spool.trouble,
                "damaged_bytes": self._spool.damaged_bytes,
            },
            "selection": {
                "socket": self._config.selection.socket if self._config.switches else None,
                "why_not": watchers.broken.get(SOCKET, ""),
            },
            "garbage": garbage,
        }
        return Found(**clipped(to_plain(found)))

    def _modules(self) -> dict[str, ModuleNote]:
        found = {port: optics.module for port, optics in self._watchers.optics.items()}
        return {
            port: ModuleNote(**{name: getattr(module, name) for name in ModuleNote.__struct_fields__})
            for port, module in found.items()
            if module is not None
        }
