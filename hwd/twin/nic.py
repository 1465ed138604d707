"""A simulated NIC port: from received light to PHY, carrier and RDMA. No clock of its own: `receive` and `advance` are told the time."""

import random
from dataclasses import dataclass
from enum import StrEnum

from hwd.model.testbed import Module, NicPortId
from hwd.twin.timing import NicTiming

NEVER_S = 1e9
"""Dwell of a link that was never taken down before."""


class What(StrEnum):
    """Something about a port that is there or not."""

    LIGHT = "light"
    """All lanes receive."""
    PHY = "phy"
    """The NIC's own PHY has the link up."""
    CARRIER = "carrier"
    """The kernel's carrier."""
    RDMA = "rdma"
    """The RDMA port is active."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NicChange:
    """`what` of a port came or went at `at_ns`."""

    port: NicPortId
    what: What
    up: bool
    at_ns: int


class Nic:
    """One port.

    The PHY starts when its receiver has light on every lane from one sender, and that sender's receiver has light as well: until then the far end sends
    remote fault, which keeps the lit end down. Whose light the far end receives does not matter, here as with real NICs. Another sender, or the loss of
    either light, takes everything down.
    """

    def __init__(self, id: NicPortId, module: Module, timing: NicTiming, rng: random.Random) -> None:
        self.id = id
        self.module = module
        self.timing = timing
        self.lanes_dbm: tuple[float | None, ...] = (None,) * module.lanes
        self.los = [True] * module.lanes
        self._latched_los = [True] * module.lanes
        self._rng = rng
        self._sender: NicPortId | None = None
        self._up: dict[What, bool] = dict.fromkeys(What, False)
        self._due: tuple[int, What] | None = None
        self._went_down_ns: int | None = None
        self._dwell_s = NEVER_S
        self._changes: list[NicChange] = []

    def is_up(self, what: What) -> bool:
        return self._up[what]

    def take_latched_los(self) -> tuple[bool, ...]:
        """Loss of signal since the last call, by lane; the call clears it, as reading a real module does."""
        latched = tuple(self._latched_los)
        self._latched_los = list(self.los)
        return latched

    def receive(self, now_ns: int, *, sender: NicPortId | None, lanes_dbm: tuple[float | None, ...]) -> None:
        """The light that arrives from now on; `lanes_dbm` is None where a lane is dark."""
        self.lanes_dbm = lanes_dbm
        for lane, power_dbm in enumerate(lanes_dbm):
            if power_dbm is None or power_dbm < self.module.los_assert_dbm:
                self.los[lane] = self._latched_los[lane] = True
            elif power_dbm >= self.module.los_deassert_dbm:
                self.los[lane] = False
        if sender != self._sender:
            self._take_down(now_ns)  # a receiver that sees another sender has to lock anew, however short the dark was
            self._sender = sender
        self._set(What.LIGHT, not any(self.los), now_ns)
        if any(self.los):
            self._take_down(now_ns)

    def remote(self, now_ns: int, *, receives: bool) -> None:
        """Whether the sender of our light receives light itself; call it after `receive` of every port."""
        if not (receives and self.is_up(What.LIGHT)):
            self._take_down(now_ns)
        elif self._due is None and not self.is_up(What.PHY):
            self._due = now_ns + _ns(self.timing.draw_firmware_s(self._rng, dwell_s=self._dwell_s)), What.PHY

    def next_ns(self) -> int | None:
        """When `advance` has something to do."""
        return self._due[0] if self._due is not None else None

    def advance(self, now_ns: int) -> tuple[NicChange, ...]:
        """What changed since the last call, in order."""
        while self._due is not None and self._due[0] <= now_ns:
            at_ns, what = self._due
            self._set(what, True, at_ns)
            match what:
                case What.PHY:
                    self._due = at_ns + _ns(self.timing.draw_carrier_s(self._rng)), What.CARRIER
                case What.CARRIER:
                    self._due = at_ns + _ns(self.timing.draw_rdma_s(self._rng)), What.RDMA
                case _:
                    self._due = None
        changes, self._changes = tuple(self._changes), []
        return changes

    def _take_down(self, now_ns: int) -> None:
        self._due = None
        if self.is_up(What.PHY):
            self._dwell_s = NEVER_S if self._went_down_ns is None else (now_ns - self._went_down_ns) / 1e9
            self._went_down_ns = now_ns
        for what in (What.RDMA, What.CARRIER, What.PHY):
            self._set(what, False, now_ns)

    def _set(self, what: What, up: bool, at_ns: int) -> None:
        if self._up[what] is not up:
            self._up[what] = up
            self._changes.append(NicChange(port=self.id, what=what, up=up, at_ns=at_ns))


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
