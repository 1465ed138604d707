"""Record: a connection that a Calient unit reports."""

from dataclasses import dataclass

from hwd_drivers.core.values import Crossconnect, CrossconnectState
from hwd_drivers.families.calient.ports import one_way


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One connection with our port numbers. AS, OS and OC of its halves: both must be good."""

    name: str
    group: str
    source: int
    destination: int
    two_way: bool
    admin: str
    operation: str
    capability: str

    @property
    def crossconnects(self) -> tuple[Crossconnect, ...]:
        forth = one_way(self.source, self.destination)
        return (forth, one_way(self.destination, self.source)) if self.two_way else (forth,)

    @property
    def active(self) -> bool:
        return self.admin == "IS"

    @property
    def broken(self) -> bool:
        """The unit tried and failed; OC of an inactive connection means nothing."""
        return self.active and self.capability == "FAIL"

    @property
    def state(self) -> CrossconnectState:
        """A connection that is entered and not activated counts as failed too: it holds its ports without light."""
        if not self.active or self.broken:
            return CrossconnectState.FAILED
        if (self.operation, self.capability) == ("IS", "OK"):
            return CrossconnectState.TUNED
        return CrossconnectState.TUNING

    @property
    def words(self) -> str:
        """`AS=IS,OS=RDY,OC=OK`"""
        return f"AS={self.admin},OS={self.operation},OC={self.capability}"
