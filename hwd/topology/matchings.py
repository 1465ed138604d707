"""Perfect matchings of hosts that together join every two of them once: the rounds of a round robin."""

from collections.abc import Sequence


def rounds(hosts: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Pair hosts by the circle method: n - 1 rounds of n hosts, or n where n is odd, and a host rests in each."""
    circle: list[str | None] = [*hosts] if len(hosts) % 2 == 0 else [*hosts, None]
    half, found = len(circle) // 2, []
    for _ in range(len(circle) - 1):
        pairs = zip(circle[:half], reversed(circle[half:]), strict=True)
        found.append([(one, other) for one, other in pairs if one is not None and other is not None])
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return found
