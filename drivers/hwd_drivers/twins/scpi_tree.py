"""ScpiTree: finds the handler of a header in short and long form, relative to the path of the line."""

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
    """The value of a header, the numbers in it, and the path for the next header of the line."""

    value: ValueT
    numbers: tuple[int, ...]
    path: str


class ScpiTree(Generic[ValueT]):
    """Headers as manuals write them: `OXC:SWITch:SIZE?`, `ROUTe<n>:SCAN`, `SYSTem:ERRor[:NEXT]?`, `*IDN?`.

    A header without a leading colon is below the path of the command before it. Where that has no such header it is
    below the root, as careless clients write it.
    """

    def __init__(self, headers: Mapping[str, ValueT]) -> None:
        self._headers = [(_compile(header), value) for header, value in headers.items()]
        self._find = functools.lru_cache(maxsize=KEPT_HEADERS)(self._search)

    def find(self, header: str, path: str = "") -> Found[ValueT]:
        """Raises ScpiError for an unknown header."""
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
    """Compile a header. Optional nodes are in brackets with their colon; a missing number is 1."""

    def node(found: re.Match[str]) -> str:
        rest = f"(?:{found[2].upper()})?" if found[2] else ""
        return f"{re.escape(found[1])}{rest}{'([0-9]{0,5})' if found[3] else ''}"

    pattern = _NODE.sub(node, header.replace("?", r"\?").replace("[", "(?:").replace("]", ")?"))
    return re.compile(pattern)
