"""Whether links join hosts: directly, or over other hosts, which forward."""

from collections.abc import Iterable, Sequence

from hwd.model.link import Link


def are_joined(hosts: Sequence[str], links: Iterable[Link]) -> bool:
    """Whether each of the hosts reaches each other one over the links."""
    near: dict[str, set[str]] = {}
    for link in links:
        for one, other in (link.ends, link.ends[::-1]):
            near.setdefault(one.host, set()).add(other.host)
    reached: set[str] = set()
    pending = [*hosts[:1]]
    while pending:
        host = pending.pop()
        if host not in reached:
            reached.add(host)
            pending += near.get(host, ())
    return reached.issuperset(hosts)
