"""NumberedSwitch: what the drivers of a Polatis unit share: its port numbers, and their readings."""

from collections.abc import Awaitable, Collection, Mapping, Sequence
from typing import ClassVar, Protocol

from hwd_drivers.core.errors import ConfigError, DeviceError, ProtocolError
from hwd_drivers.core.unit_error import UnitError
from hwd_drivers.core.values import Attenuation, Crossconnect, PortSide, PowerReading, Side
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.families.polatis.numbering import Numbering
from hwd_drivers.families.polatis.settings import VoaSetting


class Client(Protocol):
    """The connection of a session."""

    def lost(self) -> Awaitable[Exception]: ...

    def close(self) -> Awaitable[None]: ...


class NumberedSwitch:
    """One session with one switch, whose ports have the unit's own numbers."""

    missing_command: ClassVar[str] = "{}"
    """The command in an error about parts that are missing in an answer."""

    def __init__(self, context: OpenContext, client: Client, *, dark_dbm: float) -> None:
        self.name = context.name
        self._context = context
        self._session = client
        self._dark_dbm = dark_dbm
        self._numbering = Numbering.of(context.capabilities.ends)
        self._ends = {self._numbering.number(end): end for end in context.capabilities.ends}
        self._near = {end.port: number for number, end in self._ends.items() if end.side is not Side.B}
        self._far = {end.port: number for number, end in self._ends.items() if end.side is Side.B}

    async def lost(self) -> Exception:
        return await self._session.lost()

    async def close(self) -> None:
        await self._session.close()

    # --- port numbers

    def _number(self, end: PortSide) -> int:
        """Raises ConfigError for an unknown end."""
        number = (self._far if end.side is Side.B else self._near).get(end.port)
        return number if number is not None and end.side is self._ends[number].side else self._numbering.number(end)

    def _numbers(self, pairs: Sequence[Crossconnect]) -> tuple[tuple[int, int], ...]:
        """The unit's numbers of both ends of each pair."""
        return tuple([(self._number(pair.a), self._number(pair.b)) for pair in pairs])

    def _end(self, port: int) -> PortSide:
        """Raises ProtocolError for a number that the unit cannot have."""
        try:
            return self._numbering.end(port)
        except UnitError as error:
            raise ProtocolError(f"{self.name}: the switch names a port that it cannot have: {error}") from error

    def _crossconnect(self, one: int, other: int) -> Crossconnect:
        """Raises ProtocolError for ports that the unit cannot join."""
        try:
            return self._numbering.crossconnect(one, other)
        except UnitError as error:
            raise ProtocolError(f"the switch reports a crossconnect that it cannot have: {error}") from error

    def _check_size(self, found: Numbering) -> None:
        """Raises ConfigError where the switch has another size than the testbed says."""
        if found != self._numbering:
            raise ConfigError(
                f"{self.name}: the switch has {found} ports, the testbed says {self._numbering}. "
                "Correct its size in the testbed file"
            )

    def _expect_all(self, what: str, ends: Sequence[PortSide], found: Collection[int]) -> None:
        """Raise where the answer lacks an end: a unit omits ports without the part."""
        if missing := [end for end in ends if self._number(end) not in found]:
            text = f"nothing of {', '.join(missing)} in the answer"
            raise DeviceError(
                f"{self.name}: {what}: {text}. Does the unit have that there?",
                device=self.name,
                command=self.missing_command.format(what),
                code="data-missing",
                text=text,
            )

    # --- readings

    def _powers(self, ends: Sequence[PortSide], powers: Mapping[int, float]) -> tuple[PowerReading, ...]:
        """Power readings of these ends from those by port; up to `dark_dbm` there is no light."""
        found = [(end, powers[self._number(end)]) for end in ends]
        return tuple(PowerReading(end=end, power_dbm=dbm if dbm > self._dark_dbm else None) for end, dbm in found)

    def _attenuations(self, ends: Sequence[PortSide], settings: Mapping[int, VoaSetting]) -> tuple[Attenuation, ...]:
        """Attenuations of these ends from the settings by port."""
        found = [(end, settings[self._number(end)]) for end in ends]
        return tuple(
            Attenuation(
                end=end,
                mode=setting.mode,
                level=setting.level,
                reference=None if setting.reference is None else self._end(setting.reference),
            )
            for end, setting in found
        )

    def _settings(self, wanted: Sequence[Attenuation]) -> list[tuple[int, VoaSetting]]:
        """The port and the setting of each attenuation."""
        return [
            (
                self._number(each.end),
                VoaSetting(
                    mode=each.mode,
                    level=each.level,
                    reference=None if each.reference is None else self._number(each.reference),
                ),
            )
            for each in wanted
        ]
