"""Links, circuits and topologies: which NIC ports are joined, and by which light paths.

Those of which a plan has thousands are structs: they are made, compared and hashed in C.
"""

from dataclasses import dataclass
from typing import Self

import msgspec

from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Strand
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import Crossconnect, FibreEnd, PortSide


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """Two NIC ports joined, both ways. The smaller end is the first: use `Link.of`. Text: `h0.eth0<->h1.eth0`."""

    a: NicPortId
    b: NicPortId

    def __str__(self) -> str:
        return f"{self.a}<->{self.b}"

    @classmethod
    def of(cls, one: NicPortId, other: NicPortId) -> Self:
        if one == other:
            raise ConfigError(f"link {one}<->{other}: a NIC port cannot be joined to itself")
        a, b = sorted((one, other), key=NicPortId.sort_key)
        return cls(a=a, b=b)

    @classmethod
    def parse(cls, text: str) -> Self:
        one, arrow, other = text.partition("<->")
        if not arrow:
            raise ConfigError(f"link {text!r}: write it as h0.eth0<->h1.eth0")
        return cls.of(NicPortId.parse(one.strip()), NicPortId.parse(other.strip()))

    @property
    def ends(self) -> tuple[NicPortId, NicPortId]:
        return self.a, self.b

    def other(self, end: NicPortId) -> NicPortId:
        return self.b if end == self.a else self.a


class SwitchCrossconnect(msgspec.Struct, frozen=True, kw_only=True):
    """A crossconnect with the name of its switch. Text: `ocs1:1A-2B`."""

    switch: str
    crossconnect: Crossconnect

    def __str__(self) -> str:
        return f"{self.switch}:{self.crossconnect}"

    @classmethod
    def parse(cls, text: str) -> Self:
        switch, colon, pair = text.partition(":")
        if not (switch and colon):
            raise ConfigError(f"crossconnect {text!r}: write it with its switch, as ocs1:1A-2B")
        return cls(switch=switch, crossconnect=Crossconnect.parse(pair))


class SwitchEnd(msgspec.Struct, frozen=True, kw_only=True):
    """One fibre end of a switch with the name of the switch. Text: `ocs1:1A`."""

    switch: str
    end: PortSide

    def __str__(self) -> str:
        return f"{self.switch}:{self.end}"


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
        through = " ".join(str(crossconnect) for crossconnect in self.crossconnects) or "no switch"
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
