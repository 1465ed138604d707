"""Commands: what the TL1 commands of a Polatis unit mean, and the data lines of their answers, as seen from real units.

Verbs as published programs for real units use them (README.md names each). Ports are the unit's own numbers.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import Final, TypeVar

from hwd_drivers.codecs.tl1_messages import Command
from hwd_drivers.codecs.tl1_words import parse_group, unquote
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.unit_error import UnitError, Wrong
from hwd_drivers.core.values import AttenuationMode
from hwd_drivers.families.polatis.settings import AlarmMode, AlarmType, Edge, FlapProgramme, VoaSetting
from hwd_drivers.families.polatis.tl1.protocol import MODE_WORDS, MODES
from hwd_drivers.families.polatis.unit import Unit
from hwd_drivers.twins.tl1_session import Action, DenyError

ATTENUATES: Final = ("ABSOLUTE", "RELATIVE", "CONVERGED")
"""Abilities of the attenuators."""

_WordT = TypeVar("_WordT", bound=StrEnum)


class Commands:
    """The commands of one unit, without those of a session."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit

    def action(self, command: Command) -> Action:
        """What a command does. Raises DenyError for a wrong one, UnitError for lists that do not match."""
        unit = self._unit
        aid = unquote(self._with_all(command))
        match command.verb:
            case "RTRV-PATCH":
                ports = None if aid.upper() in ("", "ALL") else _ports(aid)
                return lambda: tuple(f"{one},{other}" for one, other in unit.pairs(ports))
            case "ENT-PATCH":
                return partial(unit.connect, _pairs(aid))
            case "DLT-PATCH":
                return partial(unit.disconnect, None if aid.upper() == "ALL" else _ports(aid))
            case "RTRV-PORT-POWER" | "RTRV-PORT-REVPOWER":
                return partial(self._powers, _ports(aid), reverse=command.verb == "RTRV-PORT-REVPOWER")
            case "RTRV-NETYPE":
                return self.type_lines
            case "RTRV-INV" if aid.upper() == "OCS":
                return lambda: (f"OCS:SN={unit.product.serial}",)
            case "RTRV-INV":
                raise DenyError("IIAC")
            case "RTRV-EQPT":
                return self._equipment(aid.upper(), _parameters(command).get("PARAMETER", "").upper())
        if "-PORT-" not in command.verb and not command.verb.endswith("-PMON"):
            raise DenyError("IICM")
        return self._port_action(command, aid)

    def type_lines(self) -> tuple[str, ...]:
        """Vendor, model, type, version."""
        product = self._unit.product
        return (f"{product.vendor},{product.model},OXC,{product.firmware}",)

    def _with_all(self, command: Command) -> str:
        """The AID with port numbers for ALL, which published programs use; a reading may leave the ports out too."""
        verb, aid = command.verb, command.aid.upper()
        if "-PORT-" not in verb and not verb.endswith("-PMON"):
            return command.aid
        if aid == "ALL" or (aid == "" and verb.startswith("RTRV-") and verb != "RTRV-PORT-FLAP"):
            return f"1&&{self._unit.numbering.total}"
        return command.aid

    def _equipment(self, aid: str, parameter: str) -> Action:
        unit = self._unit
        match aid, parameter:
            case "SYSTEM", "SIZE":
                return lambda: (f"SYSTEM:SIZE={unit.numbering}",)
            case "PMON" | "REVPMON", "CONFIG":
                return partial(self._monitors, aid)
            case "ATTEN", "CONFIG":
                return self._attenuators
        raise DenyError("IIAC")

    def _port_action(self, command: Command, aid: str) -> Action:
        """Commands that set and read port settings."""
        unit, parameters = self._unit, _parameters(command)
        match command.verb:
            case "OPR-PORT-SHUTTER":
                return partial(unit.shut, _ports(aid))
            case "RLS-PORT-SHUTTER":
                return partial(unit.open, _ports(aid))
            case "RTRV-PORT-SHUTTER":
                words = {True: unit.options.shutter_closed, False: unit.options.shutter_open}
                return self._words(_ports(aid), lambda port: words[unit.is_shut(port)])
            case "RTRV-PORT-LABEL":
                return self._words(_ports(aid), lambda port: unit.labels.get(port, ""))
            case "ED-PORT-LABEL":
                if "LABEL" not in parameters:
                    raise DenyError("IPNV", "LABEL is missing")
                return partial(self._label, _ports(aid), parameters["LABEL"])
            case "ENT-PORT-FLAP":
                programme = _programme(command)
                return partial(self._flap, unit.flapping.programme, ports=_ports(aid), programme=programme)
            case "OPR-PORT-FLAP":
                return partial(self._flap, unit.flapping.start, ports=_ports(aid))
            case "RLS-PORT-FLAP":
                return partial(self._flap, unit.flapping.stop, ports=_ports(aid))
            case "RTRV-PORT-FLAP":
                return partial(self._flaps, _ports(aid) if aid else None)
            case "RTRV-PORT-ATTEN":
                return self._readings(_ports(aid), unit.voas.ports, self._attenuation)
            case "SET-PORT-ATTEN":
                return self._set_attenuation(aid, parameters)
            case "RTRV-PORT-PMON":
                return self._readings(_ports(aid), unit.monitors.ports, self._monitor)
            case "SET-PORT-PMON":
                code = parameters.get("ATIME")
                if code is not None and not _NUMBER.fullmatch(code):
                    raise DenyError("IPNV", "ATIME is not a number")
                return partial(
                    unit.monitors.configure,
                    _ports(aid),
                    wavelength_nm=_number(parameters, "WAVE"),
                    offset_db=_number(parameters, "OFFSET"),
                    averaging_code=None if code is None else int(code),
                )
            case "RTRV-TH-PMON":
                ports, kind = _ports(aid), _type(parameters)
                return self._readings(ports, unit.monitors.ports, partial(self._threshold, kind))
            case "SET-TH-PMON":
                return partial(
                    unit.alarms.configure,
                    _ports(aid),
                    _type(parameters),
                    mode=_word(parameters, "MODE", AlarmMode),
                    edge=_word(parameters, "EDGE", Edge),
                    high_dbm=_number(parameters, "HIGH"),
                    low_dbm=_number(parameters, "LOW"),
                )
            case "RTRV-STATE-PMON":
                ports, kind = _ports(aid), _type(parameters)
                return self._readings(ports, unit.monitors.ports, partial(self._alarm, kind))
            case "SET-STATE-PMON":
                return partial(unit.alarms.clear, _ports(aid), _type(parameters))
        raise DenyError("IICM")

    # --- data lines

    def _readings(self, ports: Sequence[int], having: frozenset[int], line: Callable[[int], str]) -> Action:
        """A line for each of these ports that has the part."""
        return lambda: tuple(f"{port}:{line(port)}" for port in self._fitted(ports, having))

    def _words(self, ports: Sequence[int], word: Callable[[int], str]) -> Action:
        """A line for each of these ports."""

        def read() -> tuple[str, ...]:
            self._unit.check(ports)
            return tuple(f"{port}:{word(port)}" for port in ports)

        return read

    def _fitted(self, ports: Sequence[int], having: frozenset[int]) -> Sequence[int]:
        """The requested ports that have the part, as published programs ask for all ports at once.

        Where none has it, all requested ports, to be refused.
        """
        if self._unit.options.unfitted == "deny" or having.isdisjoint(ports):
            return ports
        self._unit.check(ports)
        return [port for port in ports if port in having]

    def _powers(self, ports: Sequence[int], *, reverse: bool) -> tuple[str, ...]:
        unit, dark_dbm = self._unit, self._unit.options.dark_dbm
        fitted = self._fitted(ports, unit.monitors.reverse_ports if reverse else unit.monitors.ports)
        powers = unit.monitors.read_reverse(fitted) if reverse else unit.powers(fitted)
        return tuple(f"{port}:{dark_dbm if power is None else max(power, dark_dbm):.2f}" for port, power in powers)

    def _monitors(self, kind: str) -> tuple[str, ...]:
        monitors = self._unit.monitors
        having = monitors.reverse_ports if kind == "REVPMON" else monitors.ports
        if not having:
            raise UnitError(Wrong.HARDWARE)
        inputs = self._unit.numbering.inputs
        return tuple(f"{kind}::PORT={port},MODE={'INPUT' if port <= inputs else 'OUTPUT'}" for port in sorted(having))

    def _attenuators(self) -> tuple[str, ...]:
        if not self._unit.voas.ports:
            raise UnitError(Wrong.HARDWARE)
        return tuple(f"ATTEN::MODE={word}" for word in ATTENUATES)

    def _attenuation(self, port: int) -> str:
        setting = self._unit.voas.setting(port)
        level = "" if setting.level is None else f"{setting.level:.1f}"
        return f"{MODE_WORDS[setting.mode]},{level},{setting.reference or ''}"

    def _monitor(self, port: int) -> str:
        config = self._unit.monitors.config(port)
        return f"{config.wavelength_nm:g},{config.offset_db:.1f},{config.averaging_code}"

    def _threshold(self, kind: AlarmType, port: int) -> str:
        threshold = self._unit.alarms.threshold(port, kind)
        return f"{threshold.mode},{threshold.edge},{threshold.high_dbm:.1f},{threshold.low_dbm:.1f}"

    def _alarm(self, kind: AlarmType, port: int) -> str:
        """The mode of an alarm; a present one has TRIGGERED after it."""
        alarms = self._unit.alarms
        present = f"{self._unit.options.alarm_separator}TRIGGERED" if alarms.triggered(port, kind) else ""
        return f"{alarms.threshold(port, kind).mode}{present}"

    def _flaps(self, ports: Sequence[int] | None) -> tuple[str, ...]:
        """Lines of these ports that have a programme; None is all."""
        flapping = self._unit.flapping
        self._unit.check(ports or ())
        asked = flapping.programmes if ports is None else [port for port in ports if port in flapping.programmes]
        programmes = [(port, flapping.programmes[port]) for port in sorted(asked)]
        return tuple(
            f"{port}:{each.off_ms},{each.on_ms},{each.cycles},{flapping.state(port)}" for port, each in programmes
        )

    # --- changes

    def _label(self, ports: Sequence[int], label: str) -> None:
        self._unit.check(ports)
        for port in ports:
            self._unit.label(port, label)

    def _flap(self, do: Callable[..., None], *, ports: Sequence[int], **others: FlapProgramme) -> None:
        self._unit.check(ports)
        do(ports, **others)

    def _set_attenuation(self, aid: str, parameters: dict[str, str]) -> Action:
        word = parameters.get("MODE", "").upper()
        if word not in MODES:
            raise DenyError("IPNV", "MODE is not one of " + " ".join(MODES))
        ports = _ports(aid)
        references = _ports(parameters["REFS"]) if parameters.get("REFS") else ()
        if len(references) not in (0, len(ports)):
            raise UnitError(Wrong.LIST, f"Port lists differ in length: {len(ports)} and {len(references)}")
        setting = VoaSetting(mode=MODES[word], level=_number(parameters, "LEVEL"))
        return partial(self._attenuate, ports, references, setting)

    def _attenuate(self, ports: Sequence[int], references: Sequence[int], setting: VoaSetting) -> None:
        if references and setting.mode is not AttenuationMode.RELATIVE:
            raise UnitError(Wrong.VALUE, "REFS is for MODE=REL")
        if not references:
            self._unit.attenuate(ports, setting)
        for port, reference in zip(ports, references, strict=False):
            self._unit.attenuate([port], replace(setting, reference=reference))


_NUMBER = re.compile(r"[0-9]{1,9}")
_LIST = re.compile(r"[0-9]{1,9}(?:&[0-9]{1,9})*")
_DECIMAL = re.compile(r"\(?([+-]?[0-9]{1,6}(?:\.[0-9]{1,9})?)\)?")


def _parameters(command: Command) -> dict[str, str]:
    return {name.upper(): value for name, value in command.named}


def _ports(aid: str) -> tuple[int, ...]:
    if _LIST.fullmatch(aid):
        return tuple(map(int, aid.split("&")))
    try:
        members = parse_group(aid)
    except ProtocolError as error:
        raise DenyError("IIAC", str(error).replace(";", "")) from None
    for member in members:
        if not _NUMBER.fullmatch(member):
            raise DenyError("IIAC", f"Invalid OXC port: {member[:12]}")
    return tuple(map(int, members))


def _pairs(aid: str) -> tuple[tuple[int, int], ...]:
    left, comma, right = aid.partition(",")
    if not comma:
        raise DenyError("IIAC", "Two port lists are needed")
    ones, others = _ports(left), _ports(right)
    if len(ones) != len(others):
        raise UnitError(Wrong.LIST, f"Port lists differ in length: {len(ones)} and {len(others)}")
    return tuple(zip(ones, others, strict=True))


def _programme(command: Command) -> FlapProgramme:
    values = command.positional if len(command.positional) != 1 else tuple(command.positional[0].split("&"))
    if len(values) != 3 or not all(map(_NUMBER.fullmatch, values)):
        raise DenyError("IPNV", "Three numbers are needed: block ms, restore ms, cycles")
    off_ms, on_ms, cycles = map(int, values)
    return FlapProgramme(off_ms=off_ms, on_ms=on_ms, cycles=cycles)


def _type(parameters: dict[str, str]) -> AlarmType:
    """The alarm type of a command; loss of signal by default."""
    return _word(parameters, "TYPE", AlarmType) or AlarmType.LOS


def _word(parameters: dict[str, str], name: str, words: type[_WordT]) -> _WordT | None:
    if name not in parameters:
        return None
    try:
        return words(parameters[name].upper())
    except ValueError:
        raise DenyError("IPNV", f"{name} is not one of {' '.join(words)}") from None


def _number(parameters: dict[str, str], name: str) -> float | None:
    """A number; negative ones are in parentheses, others may be."""
    if name not in parameters:
        return None
    found = _DECIMAL.fullmatch(parameters[name].strip())
    if found is None:
        raise DenyError("IPNV", f"{name} is not a number")
    return float(found[1])
