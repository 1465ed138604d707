"""Data lines of Polatis answers over TL1, as seen from real units; README.md names the sources.

Readers raise ProtocolError on a line of another form. Ports are the unit's own numbers.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from hwd_drivers.codecs.tl1_messages import Answer
from hwd_drivers.codecs.tl1_words import shorten
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.values import AttenuationMode
from hwd_drivers.families.polatis.numbering import Numbering
from hwd_drivers.families.polatis.settings import (
    AlarmMode,
    FlapProgramme,
    FlapState,
    MonitorConfig,
    Threshold,
    VoaSetting,
)

MODE_WORDS: Final[Mapping[AttenuationMode, str]] = {
    AttenuationMode.NONE: "NONE",
    AttenuationMode.FIXED: "FIX",
    AttenuationMode.MAXIMUM: "MAX",
    AttenuationMode.ABSOLUTE: "ABS",
    AttenuationMode.CONVERGED: "CONV",
    AttenuationMode.RELATIVE: "REL",
}
MODES: Final[Mapping[str, AttenuationMode]] = {word: mode for mode, word in MODE_WORDS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitType:
    """The data line of RTRV-NETYPE."""

    vendor: str
    model: str
    type: str
    version: str


def read_patch(line: str) -> tuple[int, int]:
    """Port numbers of a `"1,49"` line."""
    found = _PAIR.fullmatch(line)
    if found is None:
        raise ProtocolError(f"RTRV-PATCH: data line {shorten(line)} is not in,out")
    return int(found[1]), int(found[2])


def read_powers(answer: Answer) -> dict[int, float]:
    """dBm by port number from `"49:-3.21"` lines."""
    powers = {}
    for line in answer.lines:
        port, _, power = line.partition(":")
        if not _NUMBER.fullmatch(port) or not _DECIMAL.fullmatch(power):
            raise ProtocolError(f"RTRV-PORT-POWER: data line {shorten(line)} is not port:dBm")
        powers[int(port)] = float(power)
    return powers


def read_type(answer: Answer) -> UnitType:
    fields = [part.strip() for part in answer.lines[0].split(",")] if answer.lines else []
    if len(fields) != 4:
        raise ProtocolError(f"RTRV-NETYPE: data lines {shorten(repr(answer.lines))} are not vendor,model,type,version")
    return UnitType(vendor=fields[0], model=fields[1], type=fields[2], version=fields[3])


def read_serial(answer: Answer) -> str:
    found = _SERIAL.search("\n".join(answer.lines))
    if found is None:
        raise ProtocolError(f"RTRV-INV: no SN= in data lines {shorten(repr(answer.lines))}")
    return found[1]


def read_size(answer: Answer) -> Numbering:
    found = _SIZE.search("\n".join(answer.lines))
    if found is None:
        raise ProtocolError(f"RTRV-EQPT SIZE: no SIZE=INxOUT in data lines {shorten(repr(answer.lines))}")
    return Numbering(inputs=int(found[1]), outputs=int(found[2]))


def read_monitors(answer: Answer) -> tuple[int, ...]:
    """Port numbers of `"PMON::PORT=25,MODE=OUTPUT"` lines."""
    ports = []
    for line in answer.lines:
        found = _MONITOR.search(line)
        if found is None:
            raise ProtocolError(f"RTRV-EQPT PMON: data line {shorten(line)} has no PORT=")
        ports.append(int(found[1]))
    return tuple(ports)


def read_words(answer: Answer, verb: str) -> dict[int, str]:
    """The word of each port, from `"9:OPEN"` lines."""
    words = {}
    for line in answer.lines:
        port, colon, word = line.partition(":")
        if not colon or not _NUMBER.fullmatch(port) or not word.strip():
            raise ProtocolError(f"{verb}: data line {shorten(line)} is not port:word")
        words[int(port)] = word.strip()
    return words


def read_attenuators(answer: Answer) -> frozenset[str]:
    """The abilities of the attenuators, from `"ATTEN::MODE=ABSOLUTE"` lines; empty for NONE."""
    words = {word for line in answer.lines for word in _WORD.findall(line.rpartition("=")[2])}
    return frozenset(words) - {"NONE"}


def read_attenuation(answer: Answer) -> dict[int, VoaSetting]:
    """Settings by port, from `"33:ABS,-3.0,"` lines; level and reference may be empty."""
    settings = {}
    for line in answer.lines:
        port, _, rest = line.partition(":")
        mode, level, reference = [*(part.strip().strip("()") for part in rest.split(",")), "", ""][:3]
        if (
            not _NUMBER.fullmatch(port)
            or mode.upper() not in MODES
            or not (level == "" or _DECIMAL.fullmatch(level))
            or not (reference == "" or _NUMBER.fullmatch(reference))
        ):
            raise ProtocolError(f"RTRV-PORT-ATTEN: data line {shorten(line)} is not port:mode,level,reference")
        settings[int(port)] = VoaSetting(
            mode=MODES[mode.upper()],
            level=float(level) if level else None,
            reference=int(reference) if reference else None,
        )
    return settings


def write_patches(pairs: Iterable[tuple[int, int]]) -> tuple[str, ...]:
    return tuple(f"{one},{other}" for one, other in pairs)


def write_powers(powers_dbm: Iterable[tuple[int, float | None]], *, dark_dbm: float) -> tuple[str, ...]:
    return tuple(f"{port}:{dark_dbm if power is None else max(power, dark_dbm):.2f}" for port, power in powers_dbm)


def write_type(unit: UnitType) -> tuple[str, ...]:
    return (f"{unit.vendor},{unit.model},{unit.type},{unit.version}",)


def write_serial(serial: str) -> tuple[str, ...]:
    return (f"OCS:SN={serial}",)


def write_size(size: Numbering) -> tuple[str, ...]:
    return (f"SYSTEM:SIZE={size.inputs}x{size.outputs}",)


def write_monitors(ports: Iterable[int], size: Numbering, *, reverse: bool = False) -> tuple[str, ...]:
    kind = "REVPMON" if reverse else "PMON"
    return tuple(f"{kind}::PORT={port},MODE={'INPUT' if port <= size.inputs else 'OUTPUT'}" for port in ports)


def write_words(words: Iterable[tuple[int, str]]) -> tuple[str, ...]:
    return tuple(f"{port}:{word}" for port, word in words)


def write_monitor_configs(configs: Iterable[tuple[int, MonitorConfig]]) -> tuple[str, ...]:
    return tuple(
        f"{port}:{config.wavelength_nm:g},{config.offset_db:.1f},{config.averaging_code}" for port, config in configs
    )


def write_thresholds(thresholds: Iterable[tuple[int, Threshold]]) -> tuple[str, ...]:
    return tuple(f"{port}:{each.mode},{each.edge},{each.high_dbm:.1f},{each.low_dbm:.1f}" for port, each in thresholds)


def write_alarms(alarms: Iterable[tuple[int, AlarmMode, bool]], *, separator: str) -> tuple[str, ...]:
    """Lines of alarms; a present alarm has TRIGGERED after its mode."""
    return tuple(f"{port}:{mode}{f'{separator}TRIGGERED' if raised else ''}" for port, mode, raised in alarms)


def write_flaps(flaps: Iterable[tuple[int, FlapProgramme, FlapState]]) -> tuple[str, ...]:
    return tuple(f"{port}:{each.off_ms},{each.on_ms},{each.cycles},{state}" for port, each, state in flaps)


def write_attenuators() -> tuple[str, ...]:
    return tuple(f"ATTEN::MODE={word}" for word in ("ABSOLUTE", "RELATIVE", "CONVERGED"))


def write_attenuation(settings: Iterable[tuple[int, VoaSetting]]) -> tuple[str, ...]:
    lines = []
    for port, setting in settings:
        level = "" if setting.level is None else f"{setting.level:.1f}"
        lines.append(f"{port}:{MODE_WORDS[setting.mode]},{level},{setting.reference or ''}")
    return tuple(lines)


_NUMBER = re.compile(r"[0-9]{1,9}")
_PAIR = re.compile(r"([0-9]{1,9}),([0-9]{1,9})")
_DECIMAL = re.compile(r"[+-]?[0-9]{1,4}(?:\.[0-9]{1,9})?")
_SERIAL = re.compile(r"\bSN=([^\s,;\"]+)")
_SIZE = re.compile(r"\bSIZE=([0-9]{1,5})x([0-9]{1,5})\b")
_MONITOR = re.compile(r"\bPORT=([0-9]{1,9})\b")
_WORD = re.compile(r"[A-Z]+")
