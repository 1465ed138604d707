"""A simulated NIC port: from received light to PHY, carrier and RDMA. It reads no clock: each call has the time."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Module
from hwd.twin.nic_timing import NicTiming, nic_timing
from hwd_drivers.core.errors import RefusedError

NEVER_S = 1e9
"""Dwell of a link that was never taken down before."""


class What(StrEnum):
    """A state of a port that is up or down."""

    LIGHT = "light"
    """No lane has loss of signal; the light may still be too weak to be read."""
    PHY = "phy"
    """The NIC's own PHY has the link up."""
    CARRIER = "carrier"
    """The kernel's carrier."""
    RDMA = "rdma"
    """The RDMA port is active."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NicChange:
    """A change of a NIC port: `what` of it rose or fell at `at_ns`."""

    port: NicPortId
    what: What
    up: bool
    at_ns: int


class Nic:
    """One port.

    Its firmware starts when the port can read its light (every lane between sensitivity and overload, all from one
    sender) and the sender can read its own: until then the far end sends remote fault, which keeps the lit end down.
    Whose light the far end reads does not matter, as with real NICs: a ring of three one-way circuits comes up. Another
    sender, or the loss of either light, takes everything down.

    Each port has its own auto-negotiation and FEC: a change of them takes its link down, and the times are those of the
    NIC with that negotiation.

    A link that is taken down sooner than `RAPID_S` after the last time (up, or on its way up) comes back more slowly.
    """

    def __init__(self, id: NicPortId, module: Module, timing: NicTiming, rng: random.Random) -> None:
        self.id = id
        self.module = module
        self.timing = timing
        self.lanes_dbm: tuple[float | None, ...] = (None,) * module.lanes
        self.sender: NicPortId | None = None
        """The sender of the light that arrives here (a packet switch too); None for no sender, or more than one."""
        self._los = [True] * module.lanes
        self._latched_los = [True] * module.lanes
        self._rng = rng
        self._up: dict[What, bool] = dict.fromkeys(What, False)
        self._due: tuple[int, What] | None = None
        self._taken_down_ns: int | None = None
        self._dwell_s = NEVER_S
        self._changes: list[NicChange] = []
        self.autoneg = timing.autoneg
        self.fec: tuple[str, ...] | None = None
        """The modes that are set; None while the NIC chooses."""
        self.firmware_more_s = 0.0
        """A fault: its firmware takes so much longer each time."""
        self.stuck = False
        """A fault: its PHY stays down, and it sends remote fault, whatever light there is."""

    def is_up(self, what: What) -> bool:
        return self._up[what]

    @property
    def los(self) -> tuple[bool, ...]:
        """Loss of signal now, by lane."""
        return tuple(self._los)

    @property
    def reads(self) -> bool:
        """Whether this port can read what it receives; while it cannot, it sends remote fault."""
        module = self.module
        return (
            not self.stuck
            and self.sender is not None
            and all(
                power_dbm is not None and not lost and module.rx_min_dbm <= power_dbm <= module.rx_max_dbm
                for power_dbm, lost in zip(self.lanes_dbm, self._los, strict=True)
            )
        )

    def take_latched_los(self) -> tuple[bool, ...]:
        """Loss of signal at any time since the last call, by lane; the call clears it, as reading a
        real module does.
        """
        latched = tuple(self._latched_los)
        self._latched_los = list(self._los)
        return latched

    def receive(self, now_ns: int, *, sender: NicPortId | None, lanes_dbm: Sequence[float | None]) -> None:
        """Set the light that arrives; `lanes_dbm` has one power a lane, None where it is dark. Call `settle` of every
        port after it.
        """
        self._pass(now_ns - 1)
        self.lanes_dbm = tuple(lanes_dbm)
        for lane, power_dbm in enumerate(lanes_dbm):
            if power_dbm is None or power_dbm < self.module.los_assert_dbm:
                self._los[lane] = self._latched_los[lane] = True
            elif power_dbm >= self.module.los_deassert_dbm:
                self._los[lane] = False
        if sender != self.sender:
            self._take_down(now_ns)  # a receiver with another sender has to lock again, however short the dark time was
            self.sender = sender
        self._set(What.LIGHT, not any(self._los), now_ns)

    def settle(self, now_ns: int, *, far_end_reads: bool) -> None:
        """Start or stop, once all light is set; `far_end_reads`: whether the sender of our light can read its own."""
        self._pass(now_ns - 1)
        if not (self.reads and far_end_reads):
            self._take_down(now_ns)
        elif self._due is None and not self.is_up(What.PHY):
            firmware_s = self.timing.draw_firmware_s(self._rng, dwell_s=self._dwell_s) + self.firmware_more_s
            self._due = now_ns + _ns(firmware_s), What.PHY

    def negotiate(self, now_ns: int, on: bool) -> None:
        """Switch auto-negotiation. Call `settle` after it. Raises RefusedError where there are no times of
        this NIC for that.
        """
        if on is self.autoneg:
            return
        if self.timing.other is None:
            raise RefusedError(
                f"{self.id}: auto-negotiation {'on' if on else 'off'}: "
                f"the NIC timing {self.timing.name} has no figure for it"
            )
        self.timing, self.autoneg = nic_timing(self.timing.other), on
        self.restart(now_ns)

    def restart(self, now_ns: int) -> None:
        """Take the link down, as a change of its configuration does; `settle` starts it again."""
        self._pass(now_ns - 1)
        self._take_down(now_ns)

    def flap(self, now_ns: int, down_s: float) -> None:
        """Drop the carrier for `down_s`; PHY and light stay. Does nothing where there is no carrier."""
        self._pass(now_ns - 1)
        if not self.is_up(What.CARRIER):
            return
        for what in (What.RDMA, What.CARRIER):
            self._set(what, False, now_ns)
        self._due = now_ns + _ns(down_s), What.CARRIER

    def next_ns(self) -> int | None:
        """When `advance` has something to do."""
        return self._due[0] if self._due is not None else None

    def advance(self, now_ns: int) -> tuple[NicChange, ...]:
        """The changes since the last call, in order, each at its own time."""
        self._pass(now_ns)
        changes, self._changes = tuple(self._changes), []
        return changes

    def _pass(self, now_ns: int) -> None:
        """Advance the time; events that were due before `now_ns` happen at their own time."""
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

    def _take_down(self, now_ns: int) -> None:
        if self._due is not None or self.is_up(What.PHY):
            self._dwell_s = NEVER_S if self._taken_down_ns is None else (now_ns - self._taken_down_ns) / 1e9
            self._taken_down_ns = now_ns
        self._due = None
        for what in (What.RDMA, What.CARRIER, What.PHY):
            self._set(what, False, now_ns)

    def _set(self, what: What, up: bool, at_ns: int) -> None:
        if self._up[what] is not up:
            self._up[what] = up
            self._changes.append(NicChange(port=self.id, what=what, up=up, at_ns=at_ns))


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
