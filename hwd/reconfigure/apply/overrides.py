"""Overrides of fibre ends: held dark, or released."""

import asyncio
from collections.abc import Sequence

from hwd.fabric.state import crossconnect_ports
from hwd.model.link import SwitchCrossconnect
from hwd.ports.claim import Claim
from hwd.ports.ledger import Asker, Ledger
from hwd.ports.rules import PortAction, Reason
from hwd.reconfigure.apply.switches import Switches
from hwd.reconfigure.plans.planner import Planner
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.values import PortOverride, PortSide
from hwd_drivers.switching.drive import COMMAND_WITHIN_S


class Overrides:
    """Holds fibre ends of switches dark, or releases them, under the same leases as all other changes of light.

    An override is not journaled: the switch itself reports it, and no crash undoes it.
    """

    def __init__(self, *, planner: Planner, switches: Switches, ledger: Ledger, clock: Clock) -> None:
        self._planner = planner
        self._switches = switches
        self._ledger = ledger
        self._clock = clock

    async def set(
        self,
        switch: str,
        ends: Sequence[PortSide],
        to: PortOverride,
        *,
        lease: str | None = None,
        epoch: int | None = None,
        by: str,
    ) -> None:
        """Returns when the switch reports the override. Until then the ports of this light are leased to nobody, no
        transfer is let onto them, and no reconfiguration changes them.

        The caller has checked that the switch is ours and has these ends.

        Raises RefusedError where a port of this light is leased or held by somebody else, where a reconfiguration in
        progress relies on one, and where the switch has no overrides; FailedError where it answered and did not do it.
        """
        driver = self._switches.driver(switch)
        async with self._switches.turns.take([switch]):
            await driver.read()  # for the light at these ends now
            touched = self.touches(switch, ends)
            now = self._clock.wall_ns()
            asker = Asker(lease=lease, epoch=epoch, switches=frozenset((switch,)))
            self._ledger.check(asker, touched, PortAction.OVERRIDE, now_wall_ns=now)
            self._ledger.claim(  # in the same step: nobody takes these ports while the command is on its way
                Claim(
                    id=switch,
                    reason=Reason.OVERRIDE,
                    owner=by,
                    ports=touched,
                    since_wall_ns=now,
                    switches=frozenset((switch,)),
                    what=to.value,
                )
            )
            try:
                deadline_s = asyncio.get_running_loop().time() + COMMAND_WITHIN_S
                await driver.override(ends, to, by=by, deadline_s=deadline_s)
                await driver.read()
            finally:
                self._ledger.release(Reason.OVERRIDE, switch)

    def touches(self, switch: str, ends: Sequence[PortSide]) -> frozenset[str]:
        """These ports, and all ports whose light passes them now: `ocs1.3`, `h0.eth0`."""
        observed = self._switches.latest()
        through = [
            SwitchCrossconnect(switch=switch, crossconnect=reading.crossconnect)
            for reading in observed.get(switch, ())
            if not set(ends).isdisjoint(reading.crossconnect.ends)
        ]
        lit = self._planner.ports_lit_by(through, observed)
        return frozenset(f"{switch}.{end.port}" for end in ends) | crossconnect_ports(through) | lit
