"""Watches the transfers of a world, and who moves light under them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hwd.model.daemon import DaemonRecovered, DaemonStarted
from hwd.model.reconfiguration import ReconfigurationEnded, ReconfigurationStarted, ReconfigurationState
from hwd.model.transfer import TransferClaimed, TransferCut
from hwd.sim.watches.sight import Sight
from hwd_drivers.core.documents import Fact
from hwd_drivers.core.values import Crossconnect

OF_A_RULE: Final = "rule of prepared set "
"""Who asks for a switch that brings a set to where its rule says, after a crash; it is one more way back."""


@dataclass(slots=True, kw_only=True)
class InFlight:
    """A transfer as its rank knows it: it may send over `port` until `until_s`, or until `is_over` says that it heard
    otherwise.
    """

    name: str
    port: str
    until_s: float
    is_over: Callable[[], bool]


class TransferWatch:
    """Holds `transfer-kept`."""

    def __init__(self, sight: Sight) -> None:
        self.in_flight: dict[int, InFlight] = {}
        """By step: transfers that a rank was let go and has not ended."""
        self.cuts: dict[str, str] = {}
        """By reconfiguration that is not told to be a way back: a transfer, or the host, that it has cut."""
        self._sight = sight
        self._moving: set[str] = set()
        """Reconfigurations that may move something now, as this process of the daemon tells it."""

    def take(self, fact: Fact) -> None:
        """What the daemon tells, before the witness has taken it."""
        match fact:
            case DaemonStarted():
                self._moving.clear()
            case ReconfigurationState(reconfiguration=id, state="awaiting-confirm"):
                self._moving.discard(id)
            case ReconfigurationState(reconfiguration=id) if id in self._sight.seen:
                self._moving.add(id)
            case ReconfigurationStarted(reconfiguration=id, by=by) if str(by).startswith(OF_A_RULE):
                self.cuts.pop(id, None)
            case ReconfigurationEnded(reconfiguration=id, outcome=outcome):
                self._moving.discard(id)
                if outcome == "rolled-back" and id not in self._sight.seen:
                    self.cuts.pop(id, None)  # it was to go, and moved nothing
            case DaemonRecovered(reconfiguration=id):
                self._moving.discard(id)
            case TransferClaimed() as claimed:
                self._let_go(claimed)
            case TransferCut() as cut:
                self._cut(cut)

    def check_gone(self, switch: str, one: Crossconnect, ports: set[str]) -> None:
        """A crossconnect went, and with it the light of these ports."""
        for flight in self.in_flight.values():
            if flight.port in ports and flight.until_s > self._sight.now_s and not flight.is_over():
                self._sight.breach("transfer-kept", f"{switch} {one} went dark under {flight.name} on {flight.port}")

    def _let_go(self, claimed: TransferClaimed) -> None:
        """Take the go of a transfer; a daemon that was started again repeats one that its rank has already."""
        if any(flight.name == claimed.transfer for flight in self.in_flight.values()):
            return
        for seen in [self._sight.seen[id] for id in sorted(self._moving)]:
            ports = {self._sight.rack.attached.get(f"{switch}.{end.port}") for switch, end in seen.ends}
            if shared := ports.intersection(claimed.ports):
                names = ", ".join(sorted(filter(None, shared)))
                self._sight.breach("transfer-kept", f"{claimed.transfer} was let onto {names}, which {seen.id} moves")

    def _cut(self, cut: TransferCut) -> None:
        """What a way back records before it goes. Without a name: its host had not said what it sends."""
        if cut.reconfiguration not in self._sight.seen:
            self.cuts.setdefault(cut.reconfiguration, cut.transfer or cut.host)
        for number, flight in [*self.in_flight.items()]:
            if flight.name == cut.transfer or (not cut.transfer and flight.port in cut.ports):
                del self.in_flight[number]
