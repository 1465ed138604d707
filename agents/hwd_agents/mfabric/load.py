"""Load: how many bytes of a phase or a step each circuit, each EPS GPU and the inside of each server carries."""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from hwd_agents.mfabric.all_reduce import VectorMove
from hwd_agents.mfabric.all_to_all import Move
from hwd_agents.mfabric.routing import Circuit, Medium
from hwd_agents.mfabric.servers import Servers


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of payload; what carries nothing is not there.

    `circuits`: each direction of a link by itself. `eps_sent`, `eps_received`: by the rank of the gateway. `inside`: by
    server.
    """

    circuits: Mapping[Circuit, int]
    eps_sent: Mapping[int, int]
    eps_received: Mapping[int, int]
    inside: Mapping[int, int]


def load_of(servers: Servers, moves: Iterable[Move | VectorMove], *, element_bytes: int = 1) -> Load:
    circuits, inside = Counter[Circuit](), Counter[int]()
    sent, received = Counter[int](), Counter[int]()
    for move in moves:
        size = move.length * element_bytes
        match move.over:
            case Circuit() as circuit:
                circuits[circuit] += size
            case Medium.EPS:
                sent[move.sender] += size
                received[move.receiver] += size
            case Medium.INSIDE:
                inside[servers.server_of[move.sender]] += size
    return Load(circuits=circuits, eps_sent=sent, eps_received=received, inside=inside)
