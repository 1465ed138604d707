"""Polatis TL1 without I/O: the commands that we send, and the data lines of their answers, as seen from real units.

Verbs as published programs for real units use them (README.md names each). Readers raise ProtocolError on a line of
another form. Ports are the unit's own numbers.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from hwd_drivers.codecs.tl1_messages import Answer, Command
from hwd_drivers.codecs.tl1_words import format_group, shorten
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.values import AttenuationMode
from hwd_drivers.families.polatis.numbering import Numbering
from hwd_drivers.families.polatis.settings import VoaSetting

DEFAULT_PORT: Final = 3082

MODE_WORDS: Final[Mapping[AttenuationMode, str]] = {
    AttenuationMode.NONE: "NONE",
    AttenuationMode.FIXED: "FIX",
    AttenuationMode.MAXIMUM: "MAX",
    AttenuationMode.ABSOLUTE: "ABS",
    AttenuationMode.CONVERGED: "CONV",
    AttenuationMode.RELATIVE: "REL",
}
MODES: Final[Mapping[str, AttenuationMode]] = {word: mode for mode, word in MODE_WORDS.items()}

RETRIEVE_PATCHES: Final = Command(verb="RTRV-PATCH")
RETRIEVE_TYPE: Final = Command(verb="RTRV-NETYPE")
"""Vendor, model, type, version."""
RETRIEVE_INVENTORY: Final = Command(verb="RTRV-INV", aid="OCS")
"""The serial number."""
RETRIEVE_SIZE: Final = Command(verb="RTRV-EQPT", aid="SYSTEM", named=(("PARAMETER", "SIZE"),))
RETRIEVE_MONITORS: Final = Command(verb="RTRV-EQPT", aid="PMON", named=(("PARAMETER", "CONFIG"),))
"""Ports with a power monitor."""
RETRIEVE_ATTENUATORS: Final = Command(verb="RTRV-EQPT", aid="ATTEN", named=(("PARAMETER", "CONFIG"),))
"""Abilities of the attenuators."""


# --- commands


def enter_patches(pairs: Iterable[tuple[int, int]]) -> Command:
    """Connect the ports of each pair; ports in use are moved.

    One by one: a range of one list may not be one in the other, and this form was seen most.
    """
    pairs = list(pairs)
    return Command(verb="ENT-PATCH", aid=f"{_list(one for one, _ in pairs)},{_list(other for _, other in pairs)}")


def delete_patches(ports: Iterable[int]) -> Command:
    """Remove the connections of these ports, each named by either end."""
    return Command(verb="DLT-PATCH", aid=_list(ports))


def of_ports(verb: str, ports: Sequence[int]) -> Command:
    """A command that has ports and no parameters."""
    return Command(verb=verb, aid=format_group(ports))


def set_attenuation(port: int, setting: VoaSetting) -> Command:
    named = [("MODE", MODE_WORDS[setting.mode])]
    if setting.level is not None:
        named.append(("LEVEL", f"({setting.level:g})"))
    if setting.reference is not None:
        named.append(("REFS", str(setting.reference)))
    return Command(verb="SET-PORT-ATTEN", aid=str(port), named=tuple(named))


# --- data lines


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


def read_type(answer: Answer) -> tuple[str, str, str, str]:
    """Vendor, model, type and version."""
    fields = [part.strip() for part in answer.lines[0].split(",")] if answer.lines else []
    if len(fields) != 4:
        raise ProtocolError(f"RTRV-NETYPE: data lines {shorten(repr(answer.lines))} are not vendor,model,type,version")
    return fields[0], fields[1], fields[2], fields[3]


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


def read_shutters(answer: Answer) -> dict[int, str]:
    """The word of each port, from `"9:OPEN"` lines."""
    words = {}
    for line in answer.lines:
        port, colon, word = line.partition(":")
        if not colon or not _NUMBER.fullmatch(port) or not word.strip():
            raise ProtocolError(f"RTRV-PORT-SHUTTER: data line {shorten(line)} is not port:word")
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


_NUMBER = re.compile(r"[0-9]{1,9}")
_PAIR = re.compile(r"([0-9]{1,9}),([0-9]{1,9})")
_DECIMAL = re.compile(r"[+-]?[0-9]{1,4}(?:\.[0-9]{1,9})?")
_SERIAL = re.compile(r"\bSN=([^\s,;\"]+)")
_SIZE = re.compile(r"\bSIZE=([0-9]{1,5})x([0-9]{1,5})\b")
_MONITOR = re.compile(r"\bPORT=([0-9]{1,9})\b")
_WORD = re.compile(r"[A-Z]+")


def _list(ports: Iterable[int]) -> str:
    return "&".join(map(str, ports))
