"""Overrides: fibre ends of switches that are held dark, or let go, under the same leases as everything else that changes light."""

import asyncio
from collections.abc import Sequence

from hwd.fabric.state import crossconnect_ports
from hwd.model.link import SwitchCrossconnect
from hwd.reconfigure.leases import Leases
from hwd.reconfigure.planner import Planner
from hwd.reconfigure.switches import Switches
from hwd.reconfigure.switching import COMMAND_WITHIN_S
from hwd.reconfigure.turns import Turns
from hwd_drivers.core.values import PortOverride, PortSide


class Overriding:
    """Sets overrides while nobody drives the switch. Nothing of it is journaled: the switch itself shows what it holds, and nothing is undone after a crash."""

    def __init__(self, *, planner: Planner, switches: Switches, turns: Turns, leases: Leases) -> None:
        self._planner = planner
        self._switches = switches
        self._turns = turns
        self._leases = leases

    async def set(
        self, switch: str, ends: Sequence[PortSide], to: PortOverride, *, lease: str | None = None, by: str
    ) -> None:
        """Returns when the switch says so. The caller has checked that the switch is ours and has these ends.

        Raises RefusedError where somebody else leases, or something holds, a port whose light it is, where a reconfiguration under way relies on one, and where the
        switch cannot do it; FailedError where it answered and did not do it.
        """
        driver = self._switches.driver(switch)
        async with self._turns.drive([switch]):
            await driver.read()  # whose light it is now
            touched = self.touches(switch, ends)
            self._leases.check(touched, lease=lease)
            self._turns.check(switch, touched)
            deadline_s = asyncio.get_running_loop().time() + COMMAND_WITHIN_S
            await driver.override(ends, to, by=by, deadline_s=deadline_s)
            await driver.read()

    def touches(self, switch: str, ends: Sequence[PortSide]) -> frozenset[str]:
        """These ports, and those whose light goes through them now: `ocs1.3`, `h0.eth0`."""
        observed = self._switches.latest()
        through = [
            SwitchCrossconnect(switch=switch, crossconnect=reading.crossconnect)
            for reading in observed.get(switch, ())
            if not set(ends).isdisjoint(reading.crossconnect.ends)
        ]
        lit = self._planner.ports_lit_by(through, observed)
        return frozenset(f"{switch}.{end.port}" for end in ends) | crossconnect_ports(through) | lit
