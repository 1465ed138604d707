"""Schedules of time slots: every two hosts are joined in some slot, whatever they want to send.

`rotor` (round robin, as RotorNet): in each slot all NIC ports show matchings anew. `opera` (as Opera): one NIC port of
each host moves from a slot to the next, and the others stay; in every slot the hosts are joined by all their ports.
"""

from collections.abc import Iterator, Sequence

from hwd.model.link import Link
from hwd.topology.choice import Party, need_hosts, need_ports
from hwd.topology.kind import Given, TopologyKind


def rotor(party: Party, given: Given) -> Iterator[Link]:
    """Slot k has the matchings from k p on, one for each of the p NIC ports that all hosts have."""
    need_hosts(given.name, party, least=2)
    need_ports(given.name, party, least=1)
    matchings, slot = rounds(party.hosts), given.number("slot", default=0)
    ports = min(party.least_ports, len(matchings))
    for port in range(ports):
        for one, other in matchings[(slot * ports + port) % len(matchings)]:
            yield party.link(one, port, other, port)


def opera(party: Party, given: Given) -> Iterator[Link]:
    """Join hosts by drawn matchings: of p ports, port j has every p-th of them, and goes to its next one at slots j, j
    + p, ...; the first one at slots p, 2 p, ...
    """
    need_hosts(given.name, party, least=2)
    need_ports(given.name, party, least=1)
    stream, slot = given.draws.stream(f"opera {party.label} {party.rail}"), given.number("slot", default=0)
    matchings = rounds(stream.sample(party.hosts, len(party.hosts)))
    stream.shuffle(matchings)
    ports = min(party.least_ports, len(matchings))
    for port in range(ports):
        own = matchings[port::ports]
        for one, other in own[(slot + -port % ports) // ports % len(own)]:
            yield party.link(one, port, other, port)


def rounds(hosts: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Perfect matchings of hosts that together join every two of them once, by the circle method: n - 1 rounds of n
    hosts, or n where n is odd, and a host rests in each.
    """
    circle: list[str | None] = [*hosts] if len(hosts) % 2 == 0 else [*hosts, None]
    half, found = len(circle) // 2, []
    for _ in range(len(circle) - 1):
        pairs = zip(circle[:half], reversed(circle[half:]), strict=True)
        found.append([(one, other) for one, other in pairs if one is not None and other is not None])
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return found


ROTOR = TopologyKind(links=rotor, arguments=("slot",))
OPERA = TopologyKind(links=opera, arguments=("slot", "seed"))
