"""The entries of the journal that it holds open, and those that have ended and are not known to be in the records."""

from dataclasses import dataclass, field
from typing import Any, Final

from hwd.model.prepared_set import PreparedSet, SetSwitch
from hwd.model.reconfiguration import EndFact, ReconfigurationStarted, WantedSwitch
from hwd.reconfigure.apply.confirm_wait import ConfirmTerms, ConfirmWait
from hwd.reconfigure.journal.facts import DatedFact
from hwd.reconfigure.journal.sets import SwitchEntry
from hwd_drivers.core.structs import to_plain
from hwd_drivers.switching.moves import SwitchMoves

CONFIRMED: Final = "confirmed"
Moves = tuple[SwitchMoves, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEntry:
    """A reconfiguration that was begun and has not ended. `hash`: of its plan. `number`: of its begin, 0 before that is
    written; `also`: the numbers of its `awaits` and `goes-back`.

    `terms`: those of its wait for a confirm, where it will have one; `wait`: set while it awaits it. `overridden`:
    interlocks that somebody overrode for it, and why, in words. `wanted`: the desired state once it is confirmed.
    `started`: its first document. `of_set`: of one that brings a prepared set to a target. `doubt`: why it is not
    undone until an operator decides. Without `moves` it stands for entries that a damaged journal lost, which may
    concern any switch.
    """

    reconfiguration: str
    run: str | None
    what: str
    hash: str
    moves: Moves
    number: int = field(default=0, compare=False)
    also: tuple[int, ...] = field(default=(), compare=False)
    terms: ConfirmTerms | None = None
    wait: ConfirmWait | None = None
    doubt: str = ""
    overridden: tuple[str, ...] = ()
    wanted: tuple[WantedSwitch, ...] = ()
    started: DatedFact[ReconfigurationStarted] | None = None
    of_set: SetSwitch | None = None

    @property
    def awaits_confirm(self) -> bool:
        return self.terms is not None and self.wait is not None

    @property
    def known(self) -> dict[str, Any]:
        """The fields that its begin and a document of its end have."""
        return {"reconfiguration": self.reconfiguration, "run": self.run, "what": self.what}

    def known_of_end(self, outcome: str) -> dict[str, Any]:
        """The fields of a document of its end that the end and its begin say besides."""
        wanted = {"wanted": to_plain(self.wanted)} if outcome == CONFIRMED else {}
        return {**self.known, "outcome": outcome, **wanted}

    @property
    def known_of_start(self) -> dict[str, Any]:
        """The fields of its first document that its begin says besides."""
        return {
            **self.known,
            "hash": self.hash,
            **({"prepared_set": self.of_set.id, "target": self.of_set.target} if self.of_set else {}),
            "moves": [{"switch": move.switch, "remove": [*move.remove], "add": [*move.add]} for move in self.moves],
        }

    def concerns(self, switch: str) -> bool:
        return any(move.switch == switch for move in self.moves) or (bool(self.doubt) and not self.moves)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedEntry:
    """A reconfiguration that has ended, and whose end the records may lack. `number`: of its end."""

    begun: OpenEntry
    number: int
    outcome: str
    dated: DatedFact[EndFact]


def switch_entry(number: int, entry: SwitchEntry, prepared: PreparedSet) -> OpenEntry:
    """What a `switch` says, with all that follows from its set. Raises KeyError where that has no such target."""
    return OpenEntry(
        reconfiguration=entry.reconfiguration,
        run=prepared.run,
        what=prepared.what(entry.target),
        hash=entry.hash,
        moves=entry.moves(prepared),
        number=number,
        wanted=entry.wanted(prepared),
        started=entry.started(prepared),
        of_set=entry.of_set(prepared),
    )
