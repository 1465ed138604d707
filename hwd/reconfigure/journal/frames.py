"""The frames of the journal: one for each entry, and the most that may follow it. `file` says what they hold."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

from hwd.model.daemon import JournalGivenUp
from hwd.model.desired_state import wanted_of
from hwd.model.plan import Plan
from hwd.model.reconfiguration import EndFact
from hwd.reconfigure.apply.confirm_wait import ConfirmWait
from hwd.reconfigure.journal import facts as journal_facts
from hwd.reconfigure.journal import sets as journal_sets
from hwd.reconfigure.journal.entries import OpenEntry
from hwd.reconfigure.journal.facts import DatedFact
from hwd.reconfigure.journal.sets import StoredSet, SwitchEntry
from hwd_drivers.core.frames import encode_frame
from hwd_drivers.core.structs import to_plain

VERSION: Final = 5
_LONGEST_OUTCOME: Final = "rolled-back-or-given-up"
_HIGHEST_NUMBER: Final = 10**15
_LONGEST_WAIT: Final = ConfirmWait(started_wall_ns=-(10**19), until_wall_ns=10**20, within_s=-1.2345678901234567e-300)

_LONGEST_END: Final[DatedFact[EndFact]] = DatedFact(
    wall_ns=-(10**19), fact=JournalGivenUp(reconfiguration="", run=None, what="", why="", by="", left=[])
)
"""Without its fields, for which there are `END_BYTES`."""


def first(id: str, *, kept: list[int], next: int) -> bytes:
    """The frame at the beginning."""
    return _frame({"entry": "journal", "v": VERSION, "id": id, "kept": kept, "next": next})


def begin(one: OpenEntry, recorded: Sequence[int] = ()) -> bytes:
    """The frame of an open entry, or of one for lost entries. `recorded`: begins whose ends the records have."""
    started = one.started
    return _frame(
        {
            "entry": "begin" if one.moves else "lost",
            "v": VERSION,
            "n": one.number,
            "reconfiguration": one.reconfiguration,
            "run": one.run,
            "what": one.what,
            "hash": one.hash,
            "crash_rule": Plan.crash_rule,
            "moves": to_plain(one.moves),
            **({"overridden": [*one.overridden]} if one.overridden else {}),
            **({"wanted": to_plain(one.wanted)} if one.wanted != (*wanted_of(one.moves),) else {}),
            **({"confirm": to_plain(one.terms)} if one.terms is not None else {}),
            **({"started": journal_facts.to_json(started, one.known_of_start)} if started is not None else {}),
            **({"set": to_plain(one.of_set)} if one.of_set is not None else {}),
            **({"recorded": [*recorded]} if recorded else {}),
            **({"doubt": one.doubt} if one.doubt else {}),
        }
    )


def prepare(stored: StoredSet) -> bytes:
    """The frame of a prepared set."""
    return _frame({"entry": "prepare", "v": VERSION, "n": stored.number, **journal_sets.to_json(stored)})


def switch(number: int, entry: SwitchEntry, recorded: Sequence[int] = ()) -> bytes:
    """The frame of a switch from one target of a set to another; `switch_entry` makes the open entry of it."""
    recorded_field = {"recorded": [*recorded]} if recorded else {}
    return _frame({"entry": "switch", "v": VERSION, "n": number, **entry.to_json(), **recorded_field})


def stands(number: int, of: StoredSet, at: str) -> bytes:
    """The frame that says at which target a start has found a set."""
    return _frame({"entry": "stands", "v": VERSION, "n": number, "of": of.number, "set": of.prepared.id, "at": at})


def release(number: int, of: StoredSet) -> bytes:
    """The frame of the end of a set."""
    also = {"also": [*of.also]} if of.also else {}
    return _frame({"entry": "release", "v": VERSION, "n": number, "of": of.number, "set": of.prepared.id, **also})


def set_rest_bytes(of: StoredSet, *, is_switching: bool) -> int:
    """The most that can follow of a set without a further reservation: one switch with its end, then its own end."""
    longest = replace(of, number=_HIGHEST_NUMBER, also=(*of.also, _HIGHEST_NUMBER))
    name = max((one.name for one in of.prepared.targets), key=len)
    size = len(release(_HIGHEST_NUMBER, longest)) + len(stands(_HIGHEST_NUMBER, longest, name))
    if not is_switching:
        entry = journal_sets.longest_switch(of.prepared)
        size += len(switch(_HIGHEST_NUMBER, entry)) + 5 * len(entry.by or "")  # a name in JSON may be 6 times as long
        size += _end_bytes_of_switch()
    return size


def awaits(number: int, of: OpenEntry, wait: ConfirmWait) -> bytes:
    """The frame of a wait for a confirm."""
    return _frame({**_head("awaits", number, of), **to_plain(wait)})


def goes_back(number: int, of: OpenEntry) -> bytes:
    """The frame of a roll-back that ends a wait for a confirm."""
    return _frame(_head("goes-back", number, of))


def end(number: int, of: OpenEntry, outcome: str, dated: DatedFact[EndFact] | None = None) -> bytes:
    """The frame of an end. `dated`: the document that tells it, as `bounded` made it."""
    also = {"also": [*of.also]} if of.also else {}
    fact = {"told": journal_facts.to_json(dated, of.known_of_end(outcome))} if dated is not None else {}
    return _frame({**_head("end", number, of), **also, "outcome": outcome, **fact})


def rest_bytes(of: OpenEntry, *, may_await: bool) -> int:
    """The most that can follow its last frame: the end, and what comes before it where it awaits a confirm or may."""
    longest = replace(of, number=_HIGHEST_NUMBER, also=(_HIGHEST_NUMBER, _HIGHEST_NUMBER))
    size = len(end(_HIGHEST_NUMBER, longest, _LONGEST_OUTCOME, _LONGEST_END)) + journal_facts.END_BYTES
    if may_await or of.wait is not None:
        size += len(goes_back(_HIGHEST_NUMBER, longest))
    if may_await and of.wait is None:
        size += len(awaits(_HIGHEST_NUMBER, longest, _LONGEST_WAIT))
    return size


@cache
def _end_bytes_of_switch() -> int:
    also = (_HIGHEST_NUMBER, _HIGHEST_NUMBER)
    one = OpenEntry(reconfiguration="x" * 8, run=None, what="", hash="", moves=(), number=_HIGHEST_NUMBER, also=also)
    return journal_facts.END_BYTES + len(end(_HIGHEST_NUMBER, one, _LONGEST_OUTCOME, _LONGEST_END))


def _head(kind: str, number: int, of: OpenEntry) -> dict[str, Any]:
    """What each entry says that follows another one."""
    return {"entry": kind, "v": VERSION, "n": number, "of": of.number, "reconfiguration": of.reconfiguration}


def _frame(entry: dict[str, Any]) -> bytes:
    return encode_frame(json.dumps(entry, separators=(",", ":")).encode())
