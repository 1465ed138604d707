"""PartTwin: the twin of a part that has a table: the bytes of its serial line over TCP."""

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import BaseModel
from typing_extensions import override

from hwd_drivers.devices.elements import channels_of
from hwd_drivers.devices.serial_part import SerialPart, Unit
from hwd_drivers.twins.sequential import SequentialTwin


class PartTwin(SequentialTwin[Any, BaseModel]):
    """A twin of one unit; `mirror` is its optics, `faults` its faults. What its table does not answer has no answer."""

    protocol = "serial"

    def __init__(self, part: SerialPart[Any, Any], **settings: Any) -> None:
        self.options_type = part.options
        self._part = part
        super().__init__(**settings)
        self._channels = channels_of(self.capabilities)
        self._reports_old = part.reports_old(self.options)
        self.powered_up()

    @override
    def powered_up(self) -> None:
        self._old: list[int] | None = None  # the states before the last selection, until they were reported
        self._echoes = bool(getattr(self.options, "echo", False))

    @override
    def decoder(self) -> Callable[[bytes], Sequence[Any]]:
        return self._part.commands()

    @override
    def answer(self, command: Any) -> tuple[bytes, float]:
        states = self.states
        unit = self._unit(states)
        deed = self._part.serve(command, unit)
        if deed.echoes is not None:
            self._echoes = deed.echoes
        if deed.reports and self._old is not None and (self._reports_old == "first" or not self.moving):
            self._old = None
        if deed.targets is None:
            return deed.answer, 0.0
        settling, denial = self.move({place: to for place, to in deed.targets.items() if to != states[place]})
        if self._reports_old != "never":
            self._old = states if self.states != states else None
        if denial is not None and self._part.denial is not None:
            return self._part.denied(command, unit, denial.code, denial.text), 0.0
        return deed.answer, settling.answer_s if deed.when_moved else 0.0

    @override
    def another(self, command: Any) -> bytes:
        return self._part.serve(self._part.other(command), self._unit(self.states)).answer

    def _unit(self, states: list[int]) -> Unit:
        """The unit as it reports itself; its states are those before the last selection as long as it does so."""
        old = self._old if self._old is not None and (self._reports_old == "first" or self.moving) else None
        return Unit(
            options=self.options,
            capabilities=self.capabilities,
            channels=self._channels,
            serial=self.serial,
            states=states if old is None else old,
            echoes=self._echoes,
        )
