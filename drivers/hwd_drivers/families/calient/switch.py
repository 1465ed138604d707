"""ListedSwitch: what both drivers of a Calient unit share: the ports that it lists, and its connections."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from hwd_drivers.core.errors import BugError, ConfigError
from hwd_drivers.core.values import (
    Capabilities,
    Crossconnect,
    CrossconnectReading,
    PortSide,
    PowerReading,
    Side,
)
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.families.calient import records
from hwd_drivers.families.calient.ports import PortMap
from hwd_drivers.families.calient.record import Record
from hwd_drivers.families.calient.records import Patience, Steps
from hwd_drivers.transports.keepalive import KeepAlive


class Client(Protocol):
    """The connection of a session."""

    def lost(self) -> Awaitable[Exception]: ...

    def close(self) -> Awaitable[None]: ...


class ListedSwitch(ABC):
    """One session with one switch."""

    def __init__(
        self, context: OpenContext, client: Client, *, patience: Patience, dark_dbm: float, keep_alive_s: float
    ) -> None:
        self.name = context.name
        self._context = context
        self._patience = patience
        self._dark_dbm = dark_dbm
        self._keep_alive_s = keep_alive_s
        self._session = client
        self._ports = PortMap(names=())
        self._numbers: dict[str, int] = {}
        self._keep_alive: KeepAlive | None = None

    @abstractmethod
    async def _read_port_names(self, deadline_s: float) -> PortMap:
        """The ports that the unit lists."""

    @abstractmethod
    async def _records(self, deadline_s: float) -> tuple[tuple[Record, ...], int]:
        """All connections, and when they were received, in ns."""

    @abstractmethod
    async def _ping(self, deadline_s: float) -> None:
        """Ask for anything, so that the unit does not end the session."""

    async def begin(self, deadline_s: float) -> None:
        """List the ports, and keep the session alive from now on."""
        await self._list_ports(deadline_s)
        self._keep_alive = KeepAlive(name=self.name, every_s=self._keep_alive_s, ping=self._ping)

    async def capabilities(self, *, deadline_s: float) -> Capabilities:
        """Capabilities of the configured model. Raises ConfigError where the switch has another number of ports."""
        await self._list_ports(deadline_s)
        stated = len(self._context.capabilities.ends) // 2
        if len(self._ports.names) != stated:
            raise ConfigError(
                f"{self.name}: the switch has {len(self._ports.names)} ports, the testbed says {stated}. "
                "Correct its size in the testbed file"
            )
        return self._context.capabilities

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        found, _ = await self._records(deadline_s)
        return records.readings(found)

    async def lost(self) -> Exception:
        return await self._session.lost()

    async def close(self) -> None:
        if self._keep_alive is not None:
            await self._keep_alive.stop()
        await self._session.close()

    async def _list_ports(self, deadline_s: float) -> None:
        self._ports = await self._read_port_names(deadline_s)
        self._numbers = self._ports.numbers()

    async def _plan(
        self, remove: Sequence[Crossconnect], add: Sequence[Crossconnect], deadline_s: float
    ) -> tuple[Steps, tuple[Crossconnect, ...], int]:
        """The steps of a change, the crossconnects before it, and when these were received, in ns."""
        if not remove and not add:
            raise BugError(f"{self.name}: asked to change no crossconnect")
        for pair in (*remove, *add):
            self._port_names(pair)
        found, read_ns = await self._records(deadline_s)
        return records.plan(found, remove=remove, add=add, name=self.name), records.crossconnects(found), read_ns

    async def _in_service(
        self,
        wanted: Sequence[Crossconnect],
        command: str,
        deadline_s: float,
        activate: Callable[[Sequence[Record]], Awaitable[None]] | None = None,
    ) -> int:
        """Errors and result as those of `records.in_service`."""
        return await records.in_service(
            functools.partial(self._records, deadline_s),
            wanted,
            name=self.name,
            command=command,
            patience=self._patience,
            deadline_s=deadline_s,
            activate=activate,
        )

    def _port_names(self, pair: Crossconnect) -> tuple[str, str]:
        """The unit's names of source and destination. Raises ConfigError for an unknown port."""
        return self._ports.name(pair.a), self._ports.name(pair.b)

    def _powers(
        self, ends: Sequence[PortSide], powers: Mapping[str, tuple[float | None, float | None]]
    ) -> tuple[PowerReading, ...]:
        """Power readings of these ends from those of the IN and the OUT fibre by port; up to `dark_dbm` is no light."""
        readings = []
        for end in ends:
            power_dbm = powers[self._ports.name(end)][0 if end.side is Side.A else 1]
            lit = power_dbm is not None and power_dbm > self._dark_dbm
            readings.append(PowerReading(end=end, power_dbm=power_dbm if lit else None))
        return tuple(readings)
