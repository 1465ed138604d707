"""SettingSource: where an agent reads and sets the settings of a host's network ports.

| setting | value | state |
|---|---|---|
| mtu | bytes | bytes |
| autoneg | on (bool) | {autoneg, speed, duplex, ours, bits}: with it speed and the advertised modes |
| fec | auto, off, rs, baser or llrs | {auto, modes: [...]} |
| address | `10.1.0.1/32` | whether the interface has it (bool) |
| neighbour | {ip, mac} | {mac, nud} or None |
| route | {to, via, metric} | {to, via, metric, oif, ...} or None |

`restore` takes a state; it is JSON, so that it can be stored on a disk.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from hwd_agents.wire.setting import Setting as Setting
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import RefusedError

SETTINGS_OF_FIRMWARE: Final = frozenset({Setting.AUTONEG, Setting.FEC})
"""The settings that a kernel twin's veth does not have, and its simulated NIC has."""


NUD_LASTING: Final = 0x80 | 0x40
"""Neighbour states permanent and noarp (linux/neighbour.h): not learned by the kernel, and never forgotten by it."""


class SettingSource(Protocol):
    """Settings of the interfaces of one host.

    Raises RefusedError when the port cannot, LinkError when it does not exist, HwdError for other failures.
    """

    async def read(self, interface: str, setting: Setting, value: Json) -> Json:
        """The present state of the subject of `value`."""
        ...

    async def write(self, interface: str, setting: Setting, value: Json) -> None:
        """Make it so."""
        ...

    async def restore(self, interface: str, setting: Setting, value: Json, state: Json) -> None:
        """Restore it: `state` is what `read` returned before `value` was written."""
        ...


def subject(setting: Setting, value: Json) -> str:
    """What of the port a value applies to: of two values with one subject, the later replaces the earlier."""
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
    """Whether the state is as the value demands."""
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
    """Whether the state is restored, apart from what changes by itself.

    That is the speed of a link that negotiates, the age of a neighbour, and an interface's number.
    """
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
    """The source of settings that is `first` for `settings`, else `other`: a kernel twin has its MTU in the kernel, its
    firmware in the rack.
    """

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
    """Raises RefusedError with the settings that this agent knows: the daemon may be newer."""
    if text not in set(Setting):
        raise RefusedError(f"{text!r} is not a setting that this agent knows; it knows {', '.join(Setting)}")
    return Setting(text)


def _neighbour(state: Mapping[str, Any]) -> tuple[Json, Json]:
    """The parts of a neighbour's state that do not change by themselves."""
    nud = state.get("nud")
    return state.get("mac"), nud & NUD_LASTING if isinstance(nud, int) else nud


def _without(state: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key not in keys}
