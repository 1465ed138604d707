"""Ways over several hosts: out of which port each host reaches each other one, along links that are lit.

hops = next_hops({NicPortId.parse("h0.eth0"): [NicPortId.parse("h1.eth1")]})
hops["h0"]["h1"]  # out of h0.eth0, to h1.eth1
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hwd.model.nic_port import NicPortId


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """The first step of a way: out of `port`, to the port `to` of the next host."""

    port: NicPortId
    to: NicPortId

    def __str__(self) -> str:
        return f"{self.port} to {self.to}"


def next_hops(reaches: Mapping[NicPortId, Iterable[NicPortId]]) -> dict[str, dict[str, Hop]]:
    """The first step from each host to each other one, by the two: of a way with the fewest hosts in between.

    `reaches`: by port, the ports of other hosts at which what it sends arrives. Of equally short ways the one that
    comes first in `reaches`. Each step comes nearer, so that no packet goes round. A host that cannot be reached is
    left out.
    """
    steps: dict[str, list[Hop]] = {}
    for port, others in reaches.items():
        steps.setdefault(port.host, []).extend(Hop(port=port, to=to) for to in others if to.host != port.host)
    return {host: _from(host, steps) for host in steps}


def _from(host: str, steps: Mapping[str, list[Hop]]) -> dict[str, Hop]:
    found: dict[str, Hop] = {}
    pending = deque([host])
    while pending:
        at = pending.popleft()
        for hop in steps.get(at, ()):
            if hop.to.host != host and hop.to.host not in found:
                found[hop.to.host] = hop if at == host else found[at]
                pending.append(hop.to.host)
    return found
