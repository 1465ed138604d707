"""Planning beside the loop: what takes seconds is searched in a thread, so that agents, clocks and HTTP go on meanwhile."""

from collections.abc import Mapping

from hwd.model.plan import Plan
from hwd.model.state import Observed
from hwd.reconfigure.planner import Planner, Request, Routed
from hwd_drivers.core.offload import Offload
from hwd_drivers.core.values import PortSide


class Planning:
    """Asks the planner: in the loop where nothing is to be searched, since a thread takes longer than that, and by `offload` where a composite is.

    What a planner is given it only reads, so that the loop may ask it meanwhile, too.
    """

    def __init__(self, planner: Planner, offload: Offload) -> None:
        self._planner = planner
        self._offload = offload

    async def route(self, request: Request) -> Routed:
        """See `Planner.route`."""
        if not self._planner.has_composites:
            return self._planner.route(request)
        return await self._offload(self._planner.route, request)

    async def plan(self, routed: Routed, observed: Observed, blocked: Mapping[str, frozenset[PortSide]]) -> Plan:
        """See `Planner.plan`."""
        if not routed.composites:
            return self._planner.plan(routed, observed, blocked)
        return await self._offload(self._planner.plan, routed, observed, blocked)
