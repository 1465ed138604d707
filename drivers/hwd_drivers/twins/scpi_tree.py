"""ScpiTree: what a device does for which header, in short and long words, with the path that a line remembers."""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from hwd_drivers.codecs.scpi import UNDEFINED_HEADER, ScpiError, shorten

ValueT = TypeVar("ValueT")

KEPT_HEADERS: Final = 1_024
HEADER_LIMIT: Final = 256
"""Most characters of a header."""

_NODE = re.compile(r"([A-Z*]+)([a-z]*)(<n>)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Generic[ValueT]):
    """What a header stands for, the numbers in it, and the path that the next one of the line is below."""

    value: ValueT
    numbers: tuple[int, ...]
    path: str


class ScpiTree(Generic[ValueT]):
    """Headers as manuals write them: `OXC:SWITch:SIZE?`, `ROUTe<n>:SCAN`, `SYSTem:ERRor[:NEXT]?`, `*IDN?`.

    A header without a leading colon is one below the path of the command before it, and where there is none, one from the root, as careless clients write it.
    """

    def __init__(self, headers: Mapping[str, ValueT]) -> None:
        self._headers = [(_compile(header), value) for header, value in headers.items()]
        self._find = functools.lru_cache(maxsize=KEPT_HEADERS)(self._search)

    def find(self, header: str, path: str = "") -> Found[ValueT]:
        """Raises ScpiError where there is nothing of this name."""
        if len(header) <= HEADER_LIMIT:
            wholes = [header[1:]] if header.startswith(":") else [f"{path}{header}", header]
            for whole in wholes:
                if (found := self._find(whole.upper())) is not None:
                    value, numbers = found
                    below = path if header.startswith("*") else whole[: whole.rfind(":") + 1]
                    return Found(value=value, numbers=numbers, path=below)
        raise ScpiError(UNDEFINED_HEADER, shorten(header))

    def _search(self, header: str) -> tuple[ValueT, tuple[int, ...]] | None:
        for pattern, value in self._headers:
            if (found := pattern.fullmatch(header)) is not None:
                return value, tuple(int(number) if number else 1 for number in found.groups())
        return None


def _compile(header: str) -> re.Pattern[str]:
    """Optional nodes stand in brackets with their colon; a number that is left out is 1."""

    def node(found: re.Match[str]) -> str:
        rest = f"(?:{found[2].upper()})?" if found[2] else ""
        return f"{re.escape(found[1])}{rest}{'([0-9]{0,5})' if found[3] else ''}"

    pattern = _NODE.sub(node, header.replace("?", r"\?").replace("[", "(?:").replace("]", ")?"))
    return re.compile(pattern)
