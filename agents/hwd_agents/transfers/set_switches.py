"""SetSwitches: what processes of this host ask of the daemon about prepared sets, each answered in bounded time."""

from typing import Final, Literal

from hwd_agents.process.daemon_asks import DaemonAsks
from hwd_agents.transfers.lines import Switch, SwitchAnswerLine
from hwd_agents.wire import SwitchPreparedSet, clipped
from hwd_drivers.core.errors import DeadlineError, HwdError, LinkError, RefusedError
from hwd_drivers.core.ids import Ids

PENDING_MOST: Final = 16
"""Switches of this host without an answer: a daemon that is silent must not use up the asks of its transfers."""


class SetSwitches:
    """One ask for each line. Its switch goes on in the daemon when its process goes away."""

    def __init__(self, asks: DaemonAsks, *, host: str, ids: Ids) -> None:
        self._asks = asks
        self._host = host
        self._ids = ids
        self._pending = 0

    async def switch(self, switch: Switch, process: str) -> SwitchAnswerLine:
        """The answer of the daemon, or why there is none."""
        if self._pending >= PENDING_MOST:
            why = f"{self._host}: {PENDING_MOST} switches of prepared sets have no answer yet. Ask again later"
            return SwitchAnswerLine(outcome="refused", why=why)
        asked = SwitchPreparedSet(
            prepared_set=switch.prepared_set,
            target=switch.target,
            process=process,
            reconfiguration=switch.reconfiguration or self._ids.token(length=8),
            epoch=switch.epoch,
            key=switch.key,
        )
        self._pending += 1
        try:
            switched = await self._asks.ask(asked, within_s=switch.within_s)
        except RefusedError as error:
            return _not_switched("refused", asked, str(error))
        except (LinkError, DeadlineError) as error:  # the daemon may have done it, and the answer is lost
            why = f"{error}. Where the set is at {asked.target} by then, nothing moves"
            return _not_switched("failed", asked, why)
        except HwdError as error:
            return _not_switched("failed", asked, str(error))
        finally:
            self._pending -= 1
        return SwitchAnswerLine(outcome="switched", reconfiguration=switched.reconfiguration, target=switched.target)


def _not_switched(outcome: Literal["refused", "failed"], asked: SwitchPreparedSet, why: str) -> SwitchAnswerLine:
    return SwitchAnswerLine(
        outcome=outcome, reconfiguration=asked.reconfiguration, target=asked.target, why=clipped(why)
    )
