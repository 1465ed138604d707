"""Topologies by name and arguments, as the command line and playbooks give them: `ring hosts=h0,h1 rail=0`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hwd.model.link import Topology
from hwd.model.testbed import Testbed
from hwd.topology.pairs import pairs
from hwd.topology.ring import giant_ring, ring
from hwd_drivers.core.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    """One kind of topology and the arguments that it takes."""

    make: Callable[[Testbed, Mapping[str, str]], Topology]
    arguments: tuple[str, ...]


GENERATORS: Mapping[str, Generator] = {
    "giant-ring": Generator(make=giant_ring, arguments=("hosts", "rail")),
    "pairs": Generator(make=pairs, arguments=("hosts", "rail", "groups")),
    "ring": Generator(make=ring, arguments=("hosts", "rail", "groups")),
}


def generate(name: str, testbed: Testbed, arguments: Mapping[str, str]) -> Topology:
    """Raises ConfigError for an unknown topology or argument, and where the testbed cannot have it."""
    generator = GENERATORS.get(name)
    if generator is None:
        raise ConfigError(f"topology {name!r}: unknown; there are {', '.join(GENERATORS)}")
    for argument in arguments:
        if argument not in generator.arguments:
            raise ConfigError(f"topology {name}: no argument {argument!r}; it takes {', '.join(generator.arguments)}")
    return generator.make(testbed, arguments)
