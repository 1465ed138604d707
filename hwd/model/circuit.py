"""Circuits and topologies: which light paths make a link, and which links are wanted."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.testbed import Strand
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, FibreEnd


class Circuit(msgspec.Struct, frozen=True, kw_only=True):
    """One one-way light path from a transmitter to a receiver.

    `loss_db_typical` and `loss_db_max` sum strands, passives and crossconnects. `margin_db` is received minus needed
    power of the weakest lane at the stated minimum transmit power and `loss_db_max`. `overload_db` is how far the
    strongest lane could exceed what the receiver tolerates (<= 0: never).
    """

    source: FibreEnd
    target: FibreEnd
    strands: tuple[Strand, ...]
    crossconnects: tuple[SwitchCrossconnect, ...]
    loss_db_typical: float
    loss_db_max: float
    margin_db: float
    overload_db: float

    def __str__(self) -> str:
        through = " ".join(self.crossconnects) or "no switch"
        loss = f"loss <= {self.loss_db_max:.1f} dB, margin {self.margin_db:+.1f} dB"
        return f"{self.source} -> {self.target} through {through}, {loss}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedLink:
    """A link with the circuits that make it, both ways."""

    link: Link
    circuits: tuple[Circuit, ...]

    def __str__(self) -> str:
        return str(self.link)

    @property
    def crossconnects(self) -> frozenset[SwitchCrossconnect]:
        return frozenset(crossconnect for circuit in self.circuits for crossconnect in circuit.crossconnects)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The links that are wanted, under a name that says how they were made (`ring hosts=h0,h1 rail=0`)."""

    name: str
    links: tuple[Link, ...]


Needed = Mapping[str, frozenset[Crossconnect]]
"""Crossconnects that links need, by the name of their switch."""

Observed = Mapping[str, tuple[CrossconnectReading, ...]]
"""What each switch reported, by its name. A switch that could not be read is missing."""
