"""Expanders: every host joined to `degree` others that are drawn, so that every two are few links apart.

The splittable one is that of ACOS (section 4.2): half of each host's links stay in its half of the hosts, the other
half cross. Each two crossing links `a0-b0`, `a1-b1` go through 2x2 switches, which make `a0-a1`, `b0-b1` of them: two
halves that are expanders by themselves. 16 hosts of degree 8 split into two complete graphs of 8 with a perfect
matching.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from hwd.model.link import Link
from hwd.model.plural import plural
from hwd.topology.choice import Party, need_ports
from hwd.topology.kind import Given, TopologyKind
from hwd.topology.rotor import rounds
from hwd_drivers.core.errors import ConfigError

TRIES = 100


def expander(party: Party, given: Given) -> Iterator[Link]:
    """A drawn regular graph that is connected: `degree` links a host (by default all ports that all hosts have)."""
    import networkx

    degree, count = _degree(party, given, most=len(party.hosts) - 1), len(party.hosts)
    if degree * count % 2:
        raise ConfigError(f"{given.name}: degree {degree} of {count} hosts {party.place}: one of them must be even")
    stream = given.draws.stream(f"expander {party.label} {party.rail}")
    for _ in range(TRIES):
        graph = networkx.random_regular_graph(degree, count, seed=stream)
        if networkx.is_connected(graph):
            break
    else:
        raise ConfigError(f"{given.name}: no connected graph of degree {degree} was drawn; take a greater one")
    return _joined(party, [(party.hosts[one], party.hosts[other]) for one, other in sorted(map(sorted, graph.edges))])


def splittable(party: Party, given: Given) -> Iterator[Link]:
    """`split=no` (the default): half of the links cross; `split=yes`: the two halves of the same draw."""
    count, degree = len(party.hosts), _degree(party, given, most=len(party.hosts) // 2)
    split = given.arguments.get("split", "no")
    if split not in ("yes", "no"):
        raise ConfigError(f"{given.name}: split={split}: write yes or no")
    if count % 4 or degree % 2:
        raise ConfigError(
            f"{given.name}: needs a multiple of 4 hosts and an even degree, so that the halves are joined two by two; "
            f"there are {plural(count, 'host')} {party.place}, and degree {degree}"
        )
    stream = given.draws.stream(f"splittable {party.label} {party.rail}")
    stays: list[tuple[str, str]] = []
    moves: list[list[tuple[str, str]]] = []
    for half in (party.hosts[: count // 2], party.hosts[count // 2 :]):
        matchings = rounds(stream.sample(half, len(half)))
        drawn = [matchings[number % len(matchings)] for number in range(degree)]
        stays += [pair for matching in drawn[: degree // 2] for pair in matching]
        moves.append([pair for matching in drawn[degree // 2 :] for pair in matching])
        stream.shuffle(moves[-1])
    if split == "yes":
        return _joined(party, [*stays, *moves[0], *moves[1]])
    crossing = [
        (one, other) for here, there in zip(*moves, strict=True) for one, other in zip(here, there, strict=True)
    ]
    return _joined(party, [*stays, *crossing])


def _degree(party: Party, given: Given, *, most: int) -> int:
    degree = given.number("degree", default=min(party.least_ports, most), least=1)
    if degree > most:
        raise ConfigError(
            f"{given.name}: degree {degree} is more than {plural(len(party.hosts), 'host')} can have {party.place}"
        )
    need_ports(given.name, party, least=degree)
    return degree


def _joined(party: Party, pairs: Iterable[tuple[str, str]]) -> Iterator[Link]:
    """Each link takes the next NIC port of both hosts."""
    used: Counter[str] = Counter()
    for one, other in pairs:
        yield party.link(one, used[one], other, used[other])
        used[one] += 1
        used[other] += 1


EXPANDER = TopologyKind(links=expander, arguments=("degree", "seed"))
SPLITTABLE_EXPANDER = TopologyKind(links=splittable, arguments=("degree", "split", "seed"))
