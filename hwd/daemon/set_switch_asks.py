"""SetSwitchAsks: hosts ask to switch a prepared set that has a port of theirs; it is switched as over HTTP."""

from hwd.bus.asks import AskedBy
from hwd.fabric.in_use import InUse
from hwd.model.bodies import SwitchBody
from hwd.model.prepared_set import PreparedSetStatus
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd.web.calls.set_calls import SetCalls
from hwd_agents.wire import PreparedSetSwitched, SwitchPreparedSet
from hwd_agents.wire.access import ASKS
from hwd_drivers.core.errors import FailedError, RefusedError


class SetSwitchAsks:
    """The handler of asks for switches of prepared sets; `switch` answers once they are read back and confirmed. What
    began goes on after its expiry.
    """

    def __init__(self, in_use: InUse, sets: SetCalls, reconfigurer: Reconfigurer) -> None:
        self._in_use = in_use
        self._sets = sets
        self._reconfigurer = reconfigurer

    async def switch(self, by: AskedBy, asked: SwitchPreparedSet) -> PreparedSetSwitched:
        """Raises what `SetCalls.switch` raises, and RefusedError for a set without a port of that host, and for a
        reconfiguration that was asked for before.
        """
        id = asked.reconfiguration
        self._check_own(by.host, self._reconfigurer.sets.get(asked.prepared_set))
        if (became := self._reconfigurer.became(id)) is not None:
            raise RefusedError(f"reconfiguration {became}. It was asked for before, and is not done again")
        status = await self._sets.bring(
            asked.prepared_set,
            SwitchBody(target=asked.target, epoch=asked.epoch, id=id, by=f"{asked.process} on {by.host}"),
            None,
            access=ASKS[asked.VERB],
            key=asked.key,
        )
        if status.outcome is None:
            raise FailedError(f"reconfiguration {id}: has not ended yet, it is {status.state}. See `hwd status`")
        return PreparedSetSwitched(reconfiguration=id, target=asked.target, outcome=status.outcome)

    def _check_own(self, host: str, prepared: PreparedSetStatus) -> None:
        found = self._in_use.testbed.hosts.get(host)  # a reload may have taken it away
        own = frozenset[str]() if found is None else {port.id for port in found.ports}
        if own.isdisjoint(prepared.ports):
            raise RefusedError(
                f"prepared set {prepared.id}: host {host} has no port in it, and a host switches sets of its own light "
                "only. Ask from a host that has one, or switch it with `hwd switch`"
            )
