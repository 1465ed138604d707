"""Topologies by name and arguments, as the command line and playbooks give them: `ring hosts=h0,h1 rail=0`."""

from collections.abc import Callable, Mapping
from typing import Any

from hwd.model.circuit import Topology
from hwd.model.demand import DemandMatrix
from hwd.model.link import Link
from hwd.model.plural import plural
from hwd.model.testbed import Testbed
from hwd.topology.choice import Party, parties, topology_of
from hwd.topology.demand import demand_of
from hwd.topology.kind import Draws, Given, TopologyKind, whole_number
from hwd_drivers.core.errors import ConfigError, HwdError


def generate(
    name: str,
    kind: TopologyKind,
    testbed: Testbed,
    arguments: Mapping[str, str],
    *,
    draws: Callable[[int], Draws],
    stored: DemandMatrix | None = None,
) -> Topology:
    """Raises ConfigError for an unknown argument, and where the testbed cannot have it. `draws`: those of a seed.
    `stored`: the demand of `demand_key`, which the caller looks up.
    """
    for argument in arguments:
        if argument not in kind.takes:
            raise ConfigError(f"topology {name}: no argument {argument!r}; it takes {', '.join(kind.takes)}")
    demand = demand_of(name, testbed, arguments, stored) if "demand" in kind.arguments else {}
    seed = whole_number(name, arguments, "seed", default=0, least=0)
    given = Given(name=name, arguments=arguments, demand=demand, draws=draws(seed))
    return topology_of(
        name, arguments, [link for party in parties(testbed, arguments) for link in _links(kind, party, given)]
    )


def _links(kind: TopologyKind, party: Party, given: Given) -> list[Link]:
    """What another package returns is not trusted. Raises ConfigError for a bug of it, and for a strange NIC port."""
    try:
        links: list[Any] = [*kind.links(party, given)]
    except HwdError:
        raise
    except Exception as error:
        raise ConfigError(
            f"topology {given.name}: a bug in it, {error!r}, for {plural(len(party.hosts), 'host')}"
        ) from error
    own = {port.id for ports in party.ports.values() for port in ports}
    for link in links:
        if not isinstance(link, Link) or not own.issuperset(link.ends):
            raise ConfigError(f"topology {given.name}: a bug in it: {link} is no link of NIC ports {party.place}")
    return links
