"""Run lookup: finds the state of a run by its id, or by the first letters of it."""

from hwd.model.recorded_run import RunSummary
from hwd.model.run import RunStatus
from hwd.playbook.board import Board
from hwd.playbook.run_record import status_of
from hwd.records.records import Records
from hwd_drivers.core.errors import ConfigError, FailedError, RefusedError


class RunLookup:
    """Looks on the board first, then in the records."""

    def __init__(self, *, board: Board, records: Records) -> None:
        self._board = board
        self._records = records

    async def state(self, id: str) -> RunStatus:
        """The state of a run, by its id or a prefix of it. Raises UnknownError for none, ConfigError for several."""
        if (known := self._board.get(id)) is not None:
            return known
        match self._live(id) if id else []:
            case [run]:
                return self.status_on_board(run)
            case [_, *_] as several:
                raise ConfigError(f"run {id}: several under way start so ({', '.join(several)}). Write more of it")
        summary = await self._records.runs.get(id)
        return self._board.get(summary.id) or await self.recorded(summary)

    def live(self, id: str) -> str:
        """The whole id of a run that has not ended. Raises RefusedError for none and for several."""
        match self._live(id):
            case [run]:
                return run
            case []:
                under_way = ", ".join(status.run for status in self._board.live)
                raise RefusedError(f"run {id}: not under way. Under way: {under_way or 'none'}")
            case several:
                raise RefusedError(f"run {id}: several under way start so ({', '.join(several)}). Write more of it")

    def status_on_board(self, id: str) -> RunStatus:
        """The state of a run that is on the board."""
        if (status := self._board.get(id)) is None:
            raise FailedError(f"run {id}: has no state")
        return status

    async def recorded(self, run: RunSummary) -> RunStatus:
        """The state of a run as the records have it."""
        last = await self._records.last_document(run.id, RunStatus.KIND)
        return status_of(run, None if last is None else last.fact)

    def _live(self, id: str) -> list[str]:
        live = [status.run for status in self._board.live]
        return [id] if id in live else [run for run in live if run.startswith(id)]
