"""OverrideCalls: fibre ends that are held dark."""

from typing import Final

from hwd.config.testbed.ends import parse_ends
from hwd.fabric.in_use import InUse
from hwd.model.bodies import OverrideBody
from hwd.model.request import Caller
from hwd.model.switch import HeldEnds
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd.web.calls.call import HELD, Call, Calls, name_of
from hwd.web.rack_status import RackStatus
from hwd.web.rights import Rights
from hwd_drivers.core.values import PortOverride


class OverrideCalls:
    """The calls about fibre ends that are held dark."""

    def __init__(self, *, in_use: InUse, reconfigurer: Reconfigurer, rack: RackStatus, rights: Rights) -> None:
        self._in_use = in_use
        self._reconfigurer = reconfigurer
        self._rack = rack
        self._rights = rights

    async def override(self, body: OverrideBody, caller: Caller | None = None) -> HeldEnds:
        """Hold fibre ends dark (`force-blocked`), or release them (`normal`).

        Answers when the switch reports it.
        """
        who = name_of(caller, body.by)
        self._rights.check(OVERRIDES.access("override"), body.lease)
        found = parse_ends(body.switch, body.ends, self._in_use.testbed)
        await self._rights.act_under(OVERRIDES.access("override"), body.lease, body.epoch)
        await self._reconfigurer.overrides.set(
            body.switch,
            found,
            PortOverride(body.to),
            lease=body.lease,
            epoch=body.epoch,
            by=f"{who}: {body.why}" if body.why else who,
        )
        blocked = [*self._rack.blocked(body.switch)]
        return HeldEnds(switch=body.switch, ends=[*found], to=body.to, blocked=blocked)


OVERRIDES: Final = Calls(
    part="overrides",
    tag="overrides",
    rows=(Call(method="POST", path="/overrides", handler=OverrideCalls.override, access=HELD),),
)
