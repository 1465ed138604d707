"""The way of the light of a circuit: the places that it passes, in order, with the greatest loss up to each."""

from collections.abc import Iterator
from dataclasses import dataclass

from hwd.fabric.graph import at_switch
from hwd.model.circuit import Circuit
from hwd.model.link import SwitchCrossconnect
from hwd.model.testbed import Strand, Testbed
from hwd_drivers.core.values import FibreEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A transmitter, an end of a switch, or a receiver.

    `crossconnect`: the one by which light leaves a switch here; None where it enters a device, and at the transmitter.
    """

    end: FibreEnd
    loss_db_max: float
    crossconnect: SwitchCrossconnect | None = None


def light_way(circuit: Circuit, testbed: Testbed) -> Iterator[Place]:
    """The places of a circuit from the transmitter to the receiver. Panels and other passives count with their loss,
    and are no places.
    """
    at, loss_db = circuit.source, 0.0
    yield Place(end=at, loss_db_max=loss_db)
    pending = iter(circuit.crossconnects)
    for strand in circuit.strands:
        at = _far(strand, at)
        loss_db += strand.loss_db + sum(testbed.passives[panel.owner].loss_db for panel in strand.via)
        if (passive := testbed.passives.get(at.owner)) is not None:
            loss_db += passive.loss_db
            continue
        yield Place(end=at, loss_db_max=loss_db)
        if at != circuit.target:
            one = next(pending)
            a, b = one.crossconnect.ends
            at = at_switch(one.switch, b if at.port_side == a else a)
            loss_db += testbed.switches[one.switch].capabilities.loss_db_max
            yield Place(end=at, loss_db_max=loss_db, crossconnect=one)


def _far(strand: Strand, at: FibreEnd) -> FibreEnd:
    """The end that light reaches: it comes from `at`, or out of another port of that passive."""
    near = at if at in strand.ends else next(end for end in strand.ends if end.owner == at.owner)
    return strand.other(near)
