"""The writer of the journal: begins, waits and ends of reconfigurations. It tries again ends that a disk refused."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from hwd.model.daemon import JournalRefused, JournalWritten
from hwd.model.reconfiguration import EndFact, outcome_of
from hwd.ports.ledger import Ledger
from hwd.ports.rules import Reason
from hwd.reconfigure.apply.confirm_wait import ConfirmTerms, ConfirmWait
from hwd.reconfigure.apply.reconfiguration import Reconfiguration
from hwd.reconfigure.journal.entries import OpenEntry
from hwd.reconfigure.journal.facts import DatedFact
from hwd.reconfigure.journal.journal import Journal
from hwd.reconfigure.journal.sets import SwitchEntry
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import BugError, FailedError
from hwd_drivers.core.reason import reason_of

log = logging.getLogger(__name__)


class JournalWriter:
    """Writes what happens to reconfigurations, each before it is told or sent."""

    def __init__(self, journal: Journal, ledger: Ledger, *, clock: Clock, emit: Emitter) -> None:
        self.journal = journal
        self._ledger = ledger
        self._clock = clock
        self._emit = emit
        self._unwritten: dict[str, EndFact] = {}
        self._unwritten_why: dict[str, str] = {}

    def begin(self, reconfiguration: Reconfiguration) -> None:
        """Journal a plan before its first command, after the ends of all others. On FailedError send no command."""
        claim = self._ledger.get(Reason.RECONFIGURATION, reconfiguration.id)
        with journal_written():
            if trouble := self.write_ends():
                raise OSError(trouble)
            self.journal.begin(self._entry(reconfiguration, ConfirmTerms.of(reconfiguration.plan, claim)))

    def switch(self, reconfiguration: Reconfiguration, origin: str) -> None:
        """Begin the switch of a prepared set from its target `origin` as `begin` does, without a sync."""
        plan, caller = reconfiguration.plan, reconfiguration.caller
        if plan.of_set is None:
            raise BugError(f"reconfiguration {reconfiguration.id}: no switch of a prepared set")
        with journal_written():
            if self._unwritten and (trouble := self.write_ends()):
                raise OSError(trouble)
            self.journal.switch(
                SwitchEntry(
                    reconfiguration=reconfiguration.id,
                    prepared_set=plan.of_set.id,
                    origin=origin,
                    target=plan.of_set.target,
                    hash=plan.hash,
                    wall_ns=self._clock.wall_ns(),
                    by=None if caller is None else caller.name,
                    verified=caller is not None and caller.is_verified,
                ),
                of=self._entry(reconfiguration),
            )

    def sync(self) -> str:
        """Sync the entry of `switch`; returns why that failed, empty where it did not."""
        try:
            self.journal.sync()
        except OSError as error:
            return reason_of(error)
        return ""

    def await_confirm(self, id: str, wait: ConfirmWait) -> None:
        """Journal that one awaits its confirm. On OSError it is not to be said: a crash would roll it back."""
        self.journal.await_confirm(id, wait)

    def awaits_confirm(self, id: str) -> bool:
        """Whether the journal has it that a reconfiguration awaits its confirm: the next start would go on waiting."""
        entry = self.journal.open_entry(id)
        return entry is not None and entry.awaits_confirm

    def go_back(self, id: str) -> None:
        """Journal that one is being rolled back, where the next start would go on waiting for its confirm.

        Where that cannot be written it is rolled back all the same.
        """
        try:
            self.journal.go_back(id)
        except OSError as error:
            log.warning(
                "journal: that %s is being rolled back cannot be written: %s. If the daemon ends before that is done, "
                "its next start waits for a confirm of it until its time is over",
                id,
                reason_of(error),
            )

    @property
    def trouble(self) -> str:
        """Which ends the journal did not take, or why it takes nothing; empty where all is well."""
        return "; ".join(self._unwritten_why.values()) or self.journal.trouble

    def is_written(self, id: str) -> bool:
        return id not in self._unwritten

    def write_end(self, fact: EndFact) -> str:
        """Journal an end with the document that tells it; returns why that failed, empty where it did not.

        `write_ends` tries it again. Until then it does not count as left open.
        """
        id, outcome = fact.reconfiguration, outcome_of(fact)
        try:
            self.end(fact)
        except OSError as error:
            why = (
                f"journal: that {id} is {outcome} cannot be written: {reason_of(error)}. It is tried again every few "
                "seconds; after a crash before that the next start would bring back what was before it. "
                "Look at the disk of the data directory"
            )
            if self._unwritten.get(id) is None:
                log.warning("%s", why)
                self._emit(JournalRefused(reconfiguration=id, outcome=outcome, why=reason_of(error)))
            self._unwritten[id], self._unwritten_why[id] = fact, why
            return why
        if self._unwritten.pop(id, None) is not None:
            self._unwritten_why.pop(id)
            log.info("journal: that %s is %s is written now", id, outcome)
            self._emit(JournalWritten(reconfiguration=id, outcome=outcome))
        return ""

    def write_ends(self) -> str:
        """Try the failed ends again, oldest first; returns why the journal takes none, empty where it took all."""
        for fact in list(self._unwritten.values()):
            if why := self.write_end(fact):
                return why
        return self.journal.write_again()

    def end(self, fact: EndFact) -> None:
        """Journal an end with the document that tells it. On OSError it is not ended."""
        dated = DatedFact(wall_ns=self._clock.wall_ns(), fact=fact)
        self.journal.end(fact.reconfiguration, outcome=outcome_of(fact), dated=dated)

    def _entry(self, reconfiguration: Reconfiguration, terms: ConfirmTerms | None = None) -> OpenEntry:
        plan = reconfiguration.plan
        return OpenEntry(
            reconfiguration=reconfiguration.id,
            run=reconfiguration.run,
            what=plan.what,
            hash=plan.hash,
            moves=plan.moves,
            terms=terms,
            overridden=tuple(map(str, plan.overridden)),
            wanted=tuple(reconfiguration.wanted),
            started=DatedFact(wall_ns=self._clock.wall_ns(), fact=reconfiguration.started),
            of_set=plan.of_set,
        )


@contextmanager
def journal_written() -> Iterator[None]:
    """Raises FailedError where the journal does not take what is written in it."""
    try:
        yield
    except OSError as error:
        raise FailedError(
            f"journal: cannot write the plan: {reason_of(error)}. Nothing was sent. "
            "Make room on the disk of the data directory and ask again; the daemon goes on as it is"
        ) from error
