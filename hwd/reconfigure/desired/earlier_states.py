"""Earlier states: what was before a reconfiguration of the history, as a request that is planned from what is now."""

from hwd.fabric.in_use import InUse
from hwd.model.bodies import PlanBody
from hwd.model.link import SwitchCrossconnect, SwitchEnd
from hwd.model.reconfiguration import HistoryEntry
from hwd.model.request import Request, WantedState
from hwd.records.reconfiguration_log import ReconfigurationLog
from hwd_drivers.core.errors import RefusedError, UnknownError
from hwd_drivers.core.values import Crossconnect, PortSide

ROLLED_BACK = "rolled-back"


class EarlierStates:
    """Undoes, of the fibre ends that a reconfiguration or a later one changed, all that was changed since."""

    def __init__(self, in_use: InUse, log: ReconfigurationLog) -> None:
        self._in_use = in_use
        self._log = log

    async def before(self, body: PlanBody) -> Request:
        """The way to the state before reconfiguration `body.before`.

        An end is as it was when the first of them found it. Raises RefusedError, in words, where that is not known.
        """
        id = str(body.before)
        try:
            entries = await self._log.since(id)
        except UnknownError as error:
            raise RefusedError(f"{error}. What was before it is not known") from error
        if (host := entries[0].host) is not None:
            raise RefusedError(f"reconfiguration {id}: host {host} set its own switches, and alone can set them back")
        wanted: list[SwitchCrossconnect] = []
        freed: list[SwitchEnd] = []
        for switch, ends in self._found(id, entries).items():
            for end, one in ends.items():
                if one is None:
                    freed.append(SwitchEnd(switch=switch, end=end))
                elif ends.get(other := one.b if end == one.a else one.a) != one:
                    raise RefusedError(
                        f"reconfiguration {id}: what was before it is not known: {switch}:{one} was found at {end} and "
                        f"not at {other}, so that somebody else changed it in between"
                    )
                elif end == one.a:
                    wanted.append(SwitchCrossconnect(switch=switch, crossconnect=one))
        state = WantedState(name=f"state before {id}", crossconnects=tuple(wanted), freed=tuple(freed))
        return Request(wanted=state, body=body)

    def _found(self, id: str, entries: list[HistoryEntry]) -> dict[str, dict[PortSide, Crossconnect | None]]:
        """The crossconnects that the first reconfiguration to change each end of a switch found there."""
        found: dict[str, dict[PortSide, Crossconnect | None]] = {}
        for entry in entries:
            if entry.outcome == ROLLED_BACK or entry.host is not None or entry.reconfiguration is None:
                continue
            for move in entry.moves:
                if move.switch not in self._in_use.testbed.switches:
                    raise RefusedError(
                        f"reconfiguration {id}: {entry.reconfiguration} changed {move.switch}, which is no switch of "
                        f"testbed {self._in_use.testbed.name} any more"
                    )
                if move.lasting:
                    raise RefusedError(
                        f"reconfiguration {id}: what was before it is not known: {move.switch} does not say where its "
                        f"elements are, and {entry.reconfiguration} moved {', '.join(move.lasting)}"
                    )
                ends = found.setdefault(move.switch, {})
                for one in move.remove:
                    for end in one.ends:
                        ends.setdefault(end, one)
                for one in move.add:
                    for end in one.ends:
                        ends.setdefault(end, None)
        return found
