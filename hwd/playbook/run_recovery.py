"""Run recovery: the safe state of ended runs whose switches were recovered, or confirmed, after their end."""

import logging
from collections.abc import Callable
from typing import ClassVar

from msgspec.structs import replace

from hwd.model.daemon import CRASHED, DaemonRecovered
from hwd.model.reconfiguration import ReconfigurationEnded, ReconfigurationState
from hwd.playbook.board import Board
from hwd.playbook.run_lookup import RunLookup
from hwd.playbook.safe_state import SafeState
from hwd.ports.ledger import Ledger
from hwd.reconfigure.apply.reconfiguration import Outcome
from hwd.records.records import Records
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import HwdError, UnknownError

AGAIN_S = 5.0
"""Between attempts while the records cannot be written."""

log = logging.getLogger(__name__)


class RunRecovery:
    """A `Sink` that learns the safe states; `settle` records them.

    `on_change()` is called when there is one to settle.
    """

    TAKES: ClassVar = (DaemonRecovered, ReconfigurationEnded)

    def __init__(
        self,
        *,
        records: Records,
        board: Board,
        ledger: Ledger,
        lookup: RunLookup,
        on_change: Callable[[], None],
    ) -> None:
        self._records = records
        self._board = board
        self._ledger = ledger
        self._lookup = lookup
        self._on_change = on_change
        self._recovered: dict[str, set[SafeState]] = {}
        """By run, the safe states of its recovered reconfigurations."""

    async def take_crashed(self, run: str) -> None:
        """A crashed run that left nothing open: as applied, if all its reconfigurations were confirmed and it had no
        jobs, whose moves are not among these.
        """
        if not await self._records.jobs.of_run(run) and await self._is_all_confirmed(run):
            self._recovered[run] = {SafeState.AS_APPLIED}

    def __call__(self, document: Document) -> None:
        """Sink: learns where the switches of ended runs are, from recoveries and from confirms after the end."""
        match document.fact:
            case DaemonRecovered(outcome=outcome) if outcome == CRASHED:
                pass  # that says nothing of its switches
            case DaemonRecovered(run=str(run), outcome=outcome):
                self._learn(run, outcome)
            case ReconfigurationEnded(run=str(run), outcome=outcome):
                if not self._ledger.is_active(run) and outcome != Outcome.FAILED:
                    self._learn(run, outcome)

    async def settle(self) -> float | None:
        """Record the safe state of ended runs that recovery made known; returns seconds until the next try, if any."""
        again_s: float | None = None
        for id, states in list(self._recovered.items()):
            if self._ledger.is_active(id) or self._ledger.is_left_open(id):
                continue  # its end, or another recovery, is still to come
            safe = next(iter(states)) if len(states) == 1 else SafeState.MIXED
            try:
                status = await self._lookup.state(id)
                is_unknown = status.safe_state in (None, SafeState.UNKNOWN)
                if is_unknown and not await self._records.runs.settle(id, safe):
                    again_s = AGAIN_S
                    continue
            except UnknownError:
                log.warning(
                    "run %s: the journal knows it and the records do not; that it is %s is told to nobody", id, safe
                )
                del self._recovered[id]
                continue
            except HwdError as error:
                log.debug("run %s: that it is %s is not recorded yet: %s", id, safe, error)
                again_s = AGAIN_S
                continue
            del self._recovered[id]
            if is_unknown:
                rolled_back = safe is SafeState.BEFORE_APPLY
                self._board.put(replace(status, safe_state=safe, rolled_back=rolled_back))
                log.info("run %s: its switches are %s now", id, safe)
        return again_s

    def _learn(self, run: str, outcome: str) -> None:
        states = self._recovered.setdefault(run, set())
        states.add(SafeState.BEFORE_APPLY if outcome == Outcome.ROLLED_BACK else SafeState.AS_APPLIED)
        self._on_change()

    async def _is_all_confirmed(self, run: str) -> bool:
        kinds = (ReconfigurationState.KIND, ReconfigurationEnded.KIND)
        outcomes: dict[str, str | None] = {}
        for stored in await self._records.documents(run=run, kinds=kinds):
            match stored.document.fact:
                case ReconfigurationState(reconfiguration=id):
                    outcomes[id] = None
                case ReconfigurationEnded(reconfiguration=id, outcome=outcome):
                    outcomes[id] = outcome
                case _:
                    return False  # another version of hwd recorded it
        return bool(outcomes) and all(outcome == Outcome.CONFIRMED for outcome in outcomes.values())
