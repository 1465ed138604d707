"""The definition of a topology: a function from a party of hosts and what is given to it, to links.

    def links(party: Party, given: Given) -> Iterator[Link]:
        for one, other in zip(party.hosts[::2], party.hosts[1::2]):
            yield party.link(one, 0, other, 0)

    CHAIN = TopologyKind(links=links)

A package declares it in the entry point group `hwd.topologies`, by its name.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from hwd.model.link import Link
from hwd.topology.choice import Party
from hwd_drivers.core.errors import ConfigError

T = TypeVar("T")

DIGITS_MAX: Final = 18
"""The most digits of a whole number."""
GROUP: Final = "hwd.topologies"
"""The entry points that declare topologies."""


class Stream(Protocol):
    """A stream of draws: what topologies use of `random.Random`."""

    def shuffle(self, values: list[Any]) -> None: ...

    def sample(self, population: Sequence[T], k: int) -> list[T]: ...


class Draws(Protocol):
    """Random streams by name: more draws from one do not change the others."""

    def stream(self, name: str) -> Stream: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The input of a topology beside its hosts. `name`: that of the topology. `arguments`: its own, as they were
    written.

    `demand`: by pairs of hosts, the smaller name first, both ways together, in any unit; empty where none is known.
    `draws`: random streams of the argument `seed`, so that the same text makes the same links.
    """

    name: str
    arguments: Mapping[str, str]
    demand: Mapping[tuple[str, str], float] = field(default_factory=dict)
    draws: Draws

    def number(self, argument: str, *, default: int | None = None, least: int = 0) -> int:
        """A whole number that was given. Raises ConfigError where it is none, is too small, or is missing without a
        default.
        """
        return whole_number(self.name, self.arguments, argument, default=default, least=least)

    def between(self, one: str, other: str) -> float:
        """What two hosts send each other. Raises ConfigError where no demand was given."""
        if not self.demand:
            raise ConfigError(
                f"{self.name}: needs demand=h0:h1:5,h0:h2:1, what hosts send each other in any unit, or "
                "the name of a stored one (`hwd demand list`)"
            )
        smaller, larger = sorted((one, other))
        return self.demand.get((smaller, larger), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyKind:
    """One kind of topology. `links` is called for each party; no NIC port may be in two of its links.

    `arguments`: those that it takes beside `hosts`, `rail` and `groups`; `seed` where it draws, `demand` where it reads
    that, which brings `layer` and `microbatch` of stored ones. `by_group`: whether it takes `groups`;
    else all hosts are one party on each rail.
    """

    links: Callable[[Party, Given], Iterable[Link]]
    arguments: tuple[str, ...] = ()
    by_group: bool = True

    @property
    def takes(self) -> tuple[str, ...]:
        """All arguments."""
        stored = ("layer", "microbatch") if "demand" in self.arguments else ()
        return ("hosts", "rail", *(("groups",) if self.by_group else ()), *self.arguments, *stored)


def whole_number(name: str, arguments: Mapping[str, str], argument: str, *, default: int | None, least: int) -> int:
    """`Given.number` of a topology of this name."""
    text = arguments.get(argument)
    if text is None:
        if default is None:
            raise ConfigError(f"{name}: needs {argument}=NUMBER")
        return default
    if not text.isascii() or not text.isdigit() or len(text) > DIGITS_MAX or int(text) < least:
        raise ConfigError(f"{name}: {argument}={text} is no whole number from {least} on")
    return int(text)
