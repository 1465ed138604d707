"""Abilities: small Protocols for what a device can do. A device is the sum of its abilities.

Deadlines are times of `loop.time()` and come from the caller; an exchange that passes one raises DeadlineError.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

from hwd_drivers.core.values import (
    Attenuation,
    Capabilities,
    Crossconnect,
    CrossconnectReading,
    Exchange,
    Identity,
    PortOverride,
    PortSide,
    PowerReading,
)


@runtime_checkable
class Device(Protocol):
    """One session with one device. Used once: when it is lost, it is closed and a new one is opened."""

    name: str

    async def identify(self, *, deadline_s: float) -> Identity: ...

    async def capabilities(self, *, deadline_s: float) -> Capabilities: ...

    async def lost(self) -> Exception:
        """Wait until the session ends; returns the cause."""
        ...

    async def close(self) -> None:
        """End the session; safe to call at any time, any number of times."""
        ...


@runtime_checkable
class CrossConnects(Protocol):
    """Reads and changes crossconnects."""

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        """All crossconnects that the switch reports, in the order of their ports."""
        ...

    async def change_crossconnects(
        self,
        *,
        remove: Sequence[Crossconnect],
        add: Sequence[Crossconnect],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None = None,
    ) -> Exchange:
        """Drive the switch in as few commands as its protocol allows.

        Where ends are shared, `remove` is done before `add`.

        The caller has checked that `add` conflicts only with pairs in `remove`. `on_commanded` is called with
        `Clock.monotonic_ns` just before the first byte. Raises DeviceError with the switch's own code when it refuses;
        the caller must read what was done until then.
        """
        ...


@runtime_checkable
class PowerReadings(Protocol):
    """Reads optical power monitors."""

    async def read_power(self, ends: Sequence[PortSide], *, deadline_s: float) -> tuple[PowerReading, ...]: ...


@runtime_checkable
class PortOverrides(Protocol):
    """Makes fibre ends dark by a shutter or a disabled port, and releases them. Ends: `Capabilities.blockable`."""

    async def read_overrides(
        self, ends: Sequence[PortSide], *, deadline_s: float
    ) -> Mapping[PortSide, PortOverride]: ...

    async def override(self, ends: Sequence[PortSide], to: PortOverride, *, deadline_s: float) -> None:
        """Raises DeviceError where the switch refuses."""
        ...


@runtime_checkable
class Attenuators(Protocol):
    """Sets and reads variable attenuators; `Capabilities.attenuated` are the ends that have one."""

    async def read_attenuation(self, ends: Sequence[PortSide], *, deadline_s: float) -> tuple[Attenuation, ...]: ...

    async def attenuate(self, wanted: Sequence[Attenuation], *, deadline_s: float) -> None:
        """Raises DeviceError where the switch refuses."""
        ...


ABILITIES: Final = (Device, CrossConnects, PowerReadings, PortOverrides, Attenuators)


def methods(ability: type) -> tuple[str, ...]:
    """The names of an ability's methods."""
    return tuple(name for name in vars(ability) if not name.startswith("_"))
