"""What can be set of a host's network ports, and where an agent reads and sets it.

| setting | value | state |
|---|---|---|
| mtu | bytes | bytes |
| autoneg | on (bool) | {autoneg, speed, duplex, ours, bits}: with it speed and the modes that are offered |
| fec | auto, off, rs, baser or llrs | {auto, modes: [...]} |
| address | `10.1.0.1/32` | whether the interface has it (bool) |
| neighbour | {ip, mac} | {mac, nud} or None |
| route | {to, via, metric} | {to, via, metric, oif, ...} or None |

A state is what `restore` brings back; it is JSON, so that it can lie on a disk.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, Protocol

from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import RefusedError


class Setting(StrEnum):
    """As `hwd.model.testbed.Setting`."""

    MTU = "mtu"
    """The longest packet, in bytes."""
    AUTONEG = "autoneg"
    """Whether the NIC negotiates speed and FEC with the far end."""
    FEC = "fec"
    """Forward error correction."""
    ADDRESS = "address"
    """One more IP address."""
    NEIGHBOUR = "neighbour"
    """A static hardware address of a neighbour."""
    ROUTE = "route"
    """A route that leads out of the port."""


SETTINGS_OF_FIRMWARE: Final = frozenset({Setting.AUTONEG, Setting.FEC})
"""What a kernel twin's veth does not have, and its simulated NIC does."""


NUD_LASTING: Final = 0x80 | 0x40
"""Permanent, or in no need of asking (linux/neighbour.h): a neighbour that the kernel did not learn by itself, and does not forget."""


class SettingSource(Protocol):
    """Settings of the interfaces of one host. Raises RefusedError where the port cannot, LinkError where it is not there, HwdError for the rest."""

    async def read(self, interface: str, setting: Setting, value: Json) -> Json:
        """The state now of what `value` is about."""
        ...

    async def write(self, interface: str, setting: Setting, value: Json) -> None:
        """Make it so."""
        ...

    async def restore(self, interface: str, setting: Setting, value: Json, state: Json) -> None:
        """Make it as it was: `state` is what `read` gave before `value` was written."""
        ...


def subject(setting: Setting, value: Json) -> str:
    """What of the port a value is about: two values of one subject take each other's place."""
    match setting, value:
        case Setting.ADDRESS, str(address):
            return address
        case Setting.NEIGHBOUR, Mapping():
            return str(value.get("ip"))
        case Setting.ROUTE, Mapping():
            return f"{value.get('to')} {value.get('metric', '')}".rstrip()
        case _:
            return ""


def holds(setting: Setting, value: Json, state: Json) -> bool:
    """Whether a state is what the value asks for."""
    match setting, value, state:
        case Setting.MTU, _, _:
            return state == value
        case Setting.AUTONEG, _, Mapping():
            return state.get("autoneg") is value
        case Setting.FEC, _, Mapping():
            auto = bool(state.get("auto"))
            return auto if value == "auto" else not auto and state.get("modes") == [value]
        case Setting.ADDRESS, _, _:
            return state is True
        case Setting.NEIGHBOUR, Mapping(), Mapping():
            return state.get("mac") == value.get("mac")
        case Setting.ROUTE, Mapping(), Mapping():
            return "via" in state and state["via"] == value.get("via")
        case _:
            return False


def restored(setting: Setting, before: Json, now: Json) -> bool:
    """Whether all is as it was, but for what comes and goes by itself: the speed of a link that negotiates, the age of a neighbour, an interface's number."""
    match setting, before, now:
        case Setting.AUTONEG, Mapping(), Mapping():
            return _without(before, "speed", "duplex") == _without(now, "speed", "duplex")
        case Setting.NEIGHBOUR, Mapping(), Mapping():
            return _neighbour(before) == _neighbour(now)
        case Setting.ROUTE, Mapping(), Mapping():
            return _without(before, "oif") == _without(now, "oif")
        case _:
            return before == now


class SettingsBySource:
    """`first` for the settings that it is named for, `other` for the rest: a kernel twin has its MTU in the kernel and its firmware in the rack."""

    def __init__(self, first: SettingSource, settings: frozenset[Setting], other: SettingSource) -> None:
        self._first = first
        self._settings = settings
        self._other = other

    async def read(self, interface: str, setting: Setting, value: Json) -> Json:
        return await self._of(setting).read(interface, setting, value)

    async def write(self, interface: str, setting: Setting, value: Json) -> None:
        await self._of(setting).write(interface, setting, value)

    async def restore(self, interface: str, setting: Setting, value: Json, state: Json) -> None:
        await self._of(setting).restore(interface, setting, value, state)

    def _of(self, setting: Setting) -> SettingSource:
        return self._first if setting in self._settings else self._other


def parse_setting(text: str) -> Setting:
    """Raises RefusedError naming those that this agent knows: the daemon may be newer."""
    if text not in set(Setting):
        raise RefusedError(f"{text!r} is no setting that this agent knows; there are {', '.join(Setting)}")
    return Setting(text)


def _neighbour(state: Mapping[str, Any]) -> tuple[Json, Json]:
    """What of it does not change by itself."""
    nud = state.get("nud")
    return state.get("mac"), nud & NUD_LASTING if isinstance(nud, int) else nud


def _without(state: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key not in keys}
