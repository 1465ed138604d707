"""Proof of isolation: that no move of a plan touches the path of a circuit on which somebody else holds a lease."""

from collections.abc import Iterable, Mapping

from hwd.fabric.state import crossconnect_ports
from hwd.model.link import SwitchCrossconnect
from hwd.model.nic_port import NicPortId
from hwd.model.plan_summary import PlanIsolatedCircuit, PlanIsolation
from hwd.ports.claim import Claim
from hwd_drivers.core.values import natural_key
from hwd_drivers.switching.moves import SwitchMoves

Circuits = Mapping[tuple[NicPortId, NicPortId], frozenset[SwitchCrossconnect]]
"""Light from NIC port to NIC port, one way, with the crossconnects that it passes."""


def isolation(
    circuits: Circuits,
    leases: Iterable[Claim],
    moves: Iterable[SwitchMoves],
    touches: frozenset[str],
    unknown: Iterable[str],
) -> PlanIsolation:
    """Find what a plan touches of the path of each circuit that passes a port of one of these leases.

    `touches`: ports whose light the plan changes. `unknown`: switches whose crossconnects are not known now.
    """
    moved = {
        SwitchCrossconnect(switch=move.switch, crossconnect=one) for move in moves for one in (*move.remove, *move.add)
    }
    held = list(leases)
    found = []
    for (source, target), path in sorted(circuits.items(), key=lambda item: (item[0][0], item[0][1])):
        ports = crossconnect_ports(path) | {source, target}
        for claim in held:
            if ports.isdisjoint(claim.ports):
                continue
            found.append(
                PlanIsolatedCircuit(
                    lease=claim.id,
                    holder=claim.owner,
                    circuit=f"{source} -> {target}",
                    through=sorted(path, key=natural_key),
                    touched=sorted({*moved & path, *(ports & touches)}, key=natural_key),
                )
            )
    return PlanIsolation(circuits=found, unknown=sorted(unknown, key=natural_key))


def breach(found: PlanIsolation) -> str | None:
    """Whose circuits a plan touches, and where; None where it touches none."""
    for one in found.circuits:
        if one.touched:
            return (
                f"{', '.join(one.touched)}: is on the path of {one.circuit}, which is leased to {one.holder} "
                f"({one.lease}). Wait, ask {one.holder} to release it, or plan another way"
            )
    return None
