"""Perfect matchings of hosts that together join every two of them once: the rounds of a round robin."""

from collections.abc import Sequence

from hwd.topology.choice import Party
from hwd.topology.kind import Given
from hwd_drivers.core.errors import ConfigError


def rounds(hosts: Sequence[str]) -> list[list[tuple[str, str]]]:
    """By the circle method: n - 1 rounds of n hosts, or n where n is odd, and a host rests in each."""
    circle: list[str | None] = [*hosts] if len(hosts) % 2 == 0 else [*hosts, None]
    half, found = len(circle) // 2, []
    for _ in range(len(circle) - 1):
        pairs = zip(circle[:half], reversed(circle[half:]), strict=True)
        found.append([(one, other) for one, other in pairs if one is not None and other is not None])
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return found


def drawn_rounds(party: Party, given: Given) -> list[list[tuple[str, str]]]:
    """The same for the hosts in a drawn order, in a drawn order."""
    stream = given.draws.stream(f"rounds {party.label} {party.rail}")
    found = rounds(stream.sample(party.hosts, len(party.hosts)))
    stream.shuffle(found)
    return found


def need_hosts(what: str, party: Party, *, least: int) -> None:
    """Raises ConfigError where the party has fewer hosts."""
    if len(party.hosts) < least:
        raise ConfigError(f"{what}: needs {least} hosts at least; there are {', '.join(party.hosts)} {party.place}")
