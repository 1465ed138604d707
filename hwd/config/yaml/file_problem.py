"""A problem in a file of an operator, with its place: `testbed.yaml:14: switches.ocs1.size: 400 is over ...`."""

import difflib
import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from hwd_drivers.core.errors import ConfigError

T = TypeVar("T")
Where = tuple[str | int, ...]
"""Path inside a file: keys of mappings and indices of lists."""

NEAR_LENGTH_MAX = 64
"""The longest name that is compared with others; the cost is the product of both lengths, and no name of
ours is as long.
"""
NEAR_NAMES_MAX = 1000
"""Names that an unknown one is compared with: some 10 ms."""
KNOWN_NAMES_SHOWN = 8
"""The most names in a message; nobody reads more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One finding. A file with nothing but warnings can be used."""

    file: str
    line: int
    path: str
    text: str
    warning: bool = False

    def __str__(self) -> str:
        words = [
            f"{self.file}:{self.line}",
            *([self.path] if self.path else []),
            *(["warning"] if self.warning else []),
        ]
        return ": ".join([*words, self.text])


@dataclass(frozen=True, slots=True)
class Loaded(Generic[T]):
    """The value that a file describes, None where a problem is more than a warning, and all problems of the file."""

    value: T | None
    problems: tuple[Problem, ...]

    def require(self) -> T:
        """The value; raises ConfigError with all problems that are no warnings, one a line."""
        if errors := [str(problem) for problem in self.problems if not problem.warning]:
            raise ConfigError("\n".join(errors))
        assert self.value is not None
        return self.value


def render_path(where: Where) -> str:
    """`switches.ocs1.size`, `fibres[3].via[0]`."""
    text = ""
    for part in where:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def nearest(name: str, known: Iterable[str]) -> str:
    """The remark after an unknown name: the nearest known one, else which exist."""
    names = sorted(set(known))
    if close := nearest_name(name, names):
        return f"did you mean {close}?"
    if not names:
        return "there is none"
    more = f" and {len(names) - KNOWN_NAMES_SHOWN} more" if len(names) > KNOWN_NAMES_SHOWN else ""
    return f"known: {', '.join(names[:KNOWN_NAMES_SHOWN])}{more}"


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that is nearest to a misspelt one; None where none is near, and for a name that is too long for a
    typing error.
    """
    if len(name) > NEAR_LENGTH_MAX:
        return None
    return next(iter(difflib.get_close_matches(name, [*itertools.islice(known, NEAR_NAMES_MAX)], n=1)), None)
