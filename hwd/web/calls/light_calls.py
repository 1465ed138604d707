"""LightCalls: plans, reconfigurations and their history."""

from typing import Annotated, Final

from fastapi import Query
from msgspec.structs import replace

from hwd.fabric.in_use import InUse
from hwd.model.bodies import ActBody, PlanBody, ReconfigurationBody
from hwd.model.daemon import JournalGivenUp
from hwd.model.plan_summary import PlanSummary
from hwd.model.reconfiguration import HistoryEntry, ReconfigurationStatus
from hwd.model.request import Caller
from hwd.ports.testbed_ports import leasable
from hwd.reconfigure.applies import Applies, under_way
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd.records.reconfiguration_log import ReconfigurationLog
from hwd.web.calls.call import HELD, Call, Calls, name_of
from hwd.web.rights import Rights
from hwd_agents.wire.access import ANYONE, OPERATOR, Access
from hwd_drivers.core.errors import ConfigError

HISTORY_MAX: Final = 500
"""Reconfigurations in one answer."""
ONLY: Final = "-"
"""In place of an id: the only reconfiguration under way."""


class LightCalls:
    """The calls that move light outside of runs and prepared sets: see `Applies`."""

    def __init__(
        self,
        *,
        in_use: InUse,
        applies: Applies,
        reconfigurer: Reconfigurer,
        log: ReconfigurationLog,
        rights: Rights,
    ) -> None:
        self._in_use = in_use
        self._applies = applies
        self._reconfigurer = reconfigurer
        self._log = log
        self._rights = rights

    def under_way(self) -> list[ReconfigurationStatus]:
        """Reconfigurations that have not ended."""
        return [*map(under_way, self._reconfigurer.under_way)]

    async def history(
        self,
        *,
        limit: Annotated[int, Query(ge=1, le=HISTORY_MAX)] = 50,
        switch: Annotated[str | None, Query(description="only those that moved this switch")] = None,
        port: Annotated[str | None, Query(description="only those of this port: `ocs1.3`, `h0.eth0`")] = None,
        before: Annotated[str | None, Query(description="an id: only those that began before that one")] = None,
    ) -> list[HistoryEntry]:
        """Reconfigurations of the records, newest first: who applied what, when, with what outcome."""
        testbed = self._in_use.testbed
        if switch is not None and switch not in testbed.switches:
            raise ConfigError(f"history: no switch {switch} in testbed {testbed.name}")
        if port is not None and port not in leasable(testbed):
            raise ConfigError(f"history: no port {port}. Ports are written ocs1.3 or h0.eth0")
        found = await self._log.newest(limit=limit, switch=switch, port=port, before=before)
        states = {one.id: str(one.state) for one in self._reconfigurer.under_way}
        return [replace(one, state=states.get(one.id or "")) if one.outcome is None else one for one in found]

    async def plan(self, body: PlanBody) -> PlanSummary:
        """Read the switches and say what would move. Touches nothing; the plan's `hash` can be applied."""
        await self._rights.act_under(LIGHT.access("plan"), body.lease, body.epoch)
        return await self._applies.plan(body)

    async def apply(self, body: ReconfigurationBody, caller: Caller | None = None) -> ReconfigurationStatus:
        """Plan, drive, read back, wait for ready links where asked; answers after that, with the plan.

        It goes on when the caller goes away.
        """
        await self._rights.act_under(LIGHT.access("apply"), body.lease, body.epoch)
        return await self._applies.apply(body, caller)

    async def confirm(self, id: str) -> ReconfigurationStatus:
        """Confirm a reconfiguration: the new state stays. `-` is the only one under way."""
        return await self._applies.confirm(self._own(id, LIGHT.access("confirm")))

    async def roll_back(self, id: str) -> ReconfigurationStatus:
        """Roll a reconfiguration back to the state before it. `-` is the only one under way."""
        return await self._applies.roll_back(self._own(id, LIGHT.access("roll_back")))

    async def give_up(self, id: str, body: ActBody, caller: Caller | None = None) -> JournalGivenUp:
        """Leave one that was cut off as it is, and free its ports."""
        return await self._reconfigurer.recovery.give_up(id, by=name_of(caller, body.by), reason=body.why)

    def _own(self, id: str, access: Access) -> str | None:
        """The id, None for the only one under way. Raises RefusedError where a job alone may end it."""
        if id != ONLY:
            self._rights.check_reconfiguration(access, id)
            return id
        under_way = self._reconfigurer.under_way
        if len(under_way) == 1:
            self._rights.check_reconfiguration(access, under_way[0].id)
        return None


LIGHT: Final = Calls(
    part="light",
    tag="reconfigurations",
    rows=(
        Call(method="GET", path="/reconfigurations", handler=LightCalls.under_way, access=ANYONE),
        Call(method="GET", path="/history", handler=LightCalls.history, access=ANYONE),
        Call(method="POST", path="/plans", handler=LightCalls.plan, access=HELD),
        Call(method="POST", path="/reconfigurations", handler=LightCalls.apply, access=HELD),
        Call(method="POST", path="/reconfigurations/{id}/confirm", handler=LightCalls.confirm, access=HELD),
        Call(method="POST", path="/reconfigurations/{id}/rollback", handler=LightCalls.roll_back, access=HELD),
        Call(method="POST", path="/reconfigurations/{id}/give-up", handler=LightCalls.give_up, access=OPERATOR),
    ),
)
