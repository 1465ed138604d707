"""Settings of a twin host, over its wire."""

from collections.abc import Mapping
from typing import Any

from hwd_agents.sources.setting_source import Setting
from hwd_agents.sources.twin import hostwire
from hwd_agents.sources.twin.twin_ports import Twin
from hwd_drivers.core.documents import Json


class TwinSettings:
    """A SettingSource; the twin refuses a setting that its model does not have by name."""

    def __init__(self, twin: Twin) -> None:
        self._twin = twin

    async def read(self, interface: str, setting: Setting, value: Json) -> Json:
        answer = await self._twin.ask(
            lambda number: hostwire.ReadSetting(id=number, interface=interface, setting=setting, value=value),
            hostwire.SettingRead,
        )
        state: Json = answer.state
        return state

    async def write(self, interface: str, setting: Setting, value: Json) -> None:
        now = await self.read(interface, setting, value)
        await self.restore(interface, setting, value, _wanted(setting, value, now))

    async def restore(self, interface: str, setting: Setting, value: Json, state: Json) -> None:
        await self._twin.ask(
            lambda number: hostwire.ChangeSetting(
                id=number, interface=interface, setting=setting, value=value, state=state
            ),
            hostwire.SettingRead,
        )


def _wanted(setting: Setting, value: Any, now: Any) -> Json:
    match setting:
        case Setting.AUTONEG if isinstance(now, Mapping):
            return {**now, "autoneg": value}
        case Setting.FEC:
            return {"auto": value == "auto", "modes": [] if value == "auto" else [value]}
        case Setting.ADDRESS:
            return True
        case _:
            state: Json = value
            return state
