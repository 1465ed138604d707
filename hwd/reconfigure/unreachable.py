"""What a wait for links depends on and that cannot be reached: while it is so, nothing can become ready, and nobody would hear of it."""

import asyncio

from hwd.reconfigure.observing import Observing
from hwd.reconfigure.reconfiguration import Reconfiguration
from hwd.reconfigure.switches import Switches

SWITCH_AWAY_S = 2.0
"""A switch that only lost its session is back by then: the first attempts come within 1.5 s."""
AGENTS_AWAY_S = 5.0
"""Agents that start again, or reach another life of the broker, are back by then."""
LOOK_S = 0.25


class Unreachable:
    """Of the switches and agents of one testbed."""

    def __init__(self, switches: Switches, observing: Observing) -> None:
        self._switches = switches
        self._observing = observing

    def now(self, reconfiguration: Reconfiguration) -> list[str]:
        """Agents of links that are not ready, and switches, each with its reason: `h0, h1: its agent is down`, `ocs1: the connection was lost`."""
        switches = sorted(reconfiguration.switches)
        return [*self._observing.silent(reconfiguration), *self._switches.away(switches)]

    async def lasting(self, reconfiguration: Reconfiguration) -> None:
        """Wait until a switch of links that are not ready has been away for long, or all their agents; `now` says which."""
        loop = asyncio.get_running_loop()
        since_s: dict[str, float] = {}
        while True:
            within_s = dict.fromkeys(self._switches_away(reconfiguration), SWITCH_AWAY_S)
            if self._observing.nobody_heard(reconfiguration):
                within_s["their agents"] = AGENTS_AWAY_S
            since_s = {what: since_s.get(what, loop.time()) for what in within_s}
            if any(loop.time() - since_s[what] >= seconds for what, seconds in within_s.items()):
                return
            await asyncio.sleep(LOOK_S)

    def _switches_away(self, reconfiguration: Reconfiguration) -> list[str]:
        """Those that the daemon drives, of links that are not ready."""
        pending = [one for one in reconfiguration.plan.links if one.routed.link in reconfiguration.not_ready]
        switches = {over.switch for one in pending for over in one.routed.crossconnects}
        return [name for name in sorted(switches & reconfiguration.switches) if self._switches.away([name])]
