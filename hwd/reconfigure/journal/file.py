"""The file format of the journal: its entries in frames, and what they say after a crash or on a damaged disk.

Each payload is one JSON object. Its first key is `entry`, by which the reader finds the next entry after damage:

- `journal`: the first entry. `id`: the journal's id, also in the records; `kept`: the numbers of the entries that were
  written with it, `next`: the number of the first entry after those.
- `begin`: a reconfiguration with its moves. `crash_rule` is always `roll-back`. `doubt`: why it must not be undone.
  `overridden`: the interlocks that somebody overrode for it, with the reason, in words.
  `confirm`: what is needed to go on with its wait for a confirm, of one that will have one.
  `wanted`: the desired state once it is confirmed, where that is not what its moves say.
  `started`: its first document. `recorded`: the numbers of begins whose ends the records have meanwhile.
- `awaits`: the reconfiguration with the number `of` awaits its confirm, until `until_wall_ns`.
- `goes-back`: that with the number `of` awaits none any more, and is being rolled back.
  `set`: of one that brings a prepared set to a target, with that target.
- `prepare`, `switch`, `stands`, `release`: prepared sets, see `journal_sets`. A `switch` is a begin in short.
- `lost`: a damaged journal may have had more open entries; `doubt` says why.
- `end`: the end of the entry with the number `of`. `also`: the numbers of its `awaits` and `goes-back`. `told`: the
  document that tells it. Begin and end stay in the file until the records have that.

Every entry has its version `v`, and all but the first have a number `n`, so that a missing one is noticed. The last
entry is followed by zeros, as room for all that may follow what is open and at least `TAIL_BYTES`: a file without them
was cut off. A file of another version is refused, and left as it is.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final

from hwd.model.daemon import JournalGivenUp
from hwd.model.desired_state import wanted_of
from hwd.model.plan import Plan
from hwd.model.plural import plural
from hwd.model.prepared_set import PreparedSet, SetSwitch
from hwd.model.reconfiguration import EndFact, ReconfigurationStarted, WantedSwitch, outcome_of
from hwd.reconfigure.apply.confirm_wait import ConfirmTerms, ConfirmWait
from hwd.reconfigure.journal import facts as journal_facts
from hwd.reconfigure.journal import sets as journal_sets
from hwd.reconfigure.journal.facts import DatedFact
from hwd.reconfigure.journal.sets import StoredSet, SwitchEntry
from hwd_drivers.core.disk import SECTOR_BYTES
from hwd_drivers.core.errors import ConfigError, HwdError
from hwd_drivers.core.frames import FRAME_LIMIT_BYTES, decode_frames, encode_frame
from hwd_drivers.core.structs import from_plain, to_plain
from hwd_drivers.switching.moves import SwitchMoves

VERSION: Final = 5
START: Final = b'{"entry":"'
TAIL_BYTES: Final = 64
_HEADER_BYTES: Final = 8
"""Zeros behind the last entry that no beginning of another one can be."""
_CONFIRMED: Final = "confirmed"
_LONGEST_OUTCOME: Final = "rolled-back-or-given-up"
_HIGHEST_NUMBER: Final = 10**15
_LONGEST_WAIT: Final = ConfirmWait(started_wall_ns=-(10**19), until_wall_ns=10**20, within_s=-1.2345678901234567e-300)

_LONGEST_END: Final[DatedFact[EndFact]] = DatedFact(
    wall_ns=-(10**19), fact=JournalGivenUp(reconfiguration="", run=None, what="", why="", by="", left=[])
)
"""Without its fields, for which there are `END_BYTES`."""

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
    number: int = 0
    also: tuple[int, ...] = ()
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

    def concerns(self, switch: str) -> bool:
        return any(move.switch == switch for move in self.moves) or (bool(self.doubt) and not self.moves)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedEntry:
    """A reconfiguration that has ended, and whose end the records may lack. `number`: of its end."""

    begun: OpenEntry
    number: int
    outcome: str
    dated: DatedFact[EndFact]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The contents of a file.

    `sets`: prepared sets that have not ended. `ended`: those whose end is not known to be in the records. `ends`: the
    end of its last readable entry. `damage`: what is wrong with it, or empty. `is_lossy`: an open entry or an end may
    be lost by the damage; then every open entry that may have ended has a `doubt`.
    """

    id: str | None = None
    open: tuple[OpenEntry, ...] = ()
    ended: tuple[EndedEntry, ...] = ()
    sets: tuple[StoredSet, ...] = ()
    next: int = 1
    ends: int = 0
    damage: str = ""
    is_lossy: bool = False


def read(data: bytes, known: str | None) -> Contents:
    """Read what `Disk.read` returned. `known`: the journal's id in the records, None where they have none."""
    body = data.rstrip(b"\0")
    frames = decode_frames(body, resume=START)
    if _has_hole(body, frames.good_bytes):
        body = body[: frames.good_bytes]
        frames = decode_frames(body, resume=START)
    log = _Log()
    invalid_bytes = sum(len(payload) for payload in frames.payloads if not log.take(payload))
    tail = body[frames.read_bytes :]
    if known is None and not (frames.payloads or frames.damaged_bytes):
        return Contents()  # a new journal, or half of its first write
    if not body:
        return Contents(damage="it is empty, or gone", is_lossy=True)
    cut = (bool(tail) and not _is_torn(data, frames.read_bytes)) or len(data) - len(body) < _HEADER_BYTES
    damage: list[str] = []
    if frames.damaged_bytes + invalid_bytes:
        damage.append(f"{frames.damaged_bytes + invalid_bytes} of its {len(data)} bytes cannot be read")
    if log.header is None:
        damage.append("its first entry cannot be read")
    elif known not in (None, log.header):
        damage.append(f"it is journal {log.header}, and the records belong to journal {known}")
    if cut:
        damage.append("its end is missing")
    missing = log.missing
    unsettled = missing - log.settled
    all_unsure = cut or bool(invalid_bytes) or known not in (None, log.header)
    if missing and not damage:
        damage.append(f"it lacks {plural(len(missing), 'entry', many='entries')}")
    words = ", ".join(damage)

    def may_have_ended(number: int) -> bool:
        return all_unsure or any(missing > number for missing in unsettled)

    def with_doubt(one: OpenEntry) -> OpenEntry:
        return _doubted(one, words) if may_have_ended(one.number) else one

    def doubted_set(one: StoredSet) -> StoredSet:
        return replace(one, doubt=one.doubt or _set_doubt(words)) if may_have_ended(one.number) else one

    return Contents(
        id=log.header,
        open=tuple(map(with_doubt, log.open.values())),
        ended=tuple(log.ended.values()) if known in (None, log.header) else (),
        sets=tuple(map(doubted_set, log.sets.values())),
        next=max(log.last + 1, log.next),
        ends=frames.read_bytes,
        damage=words,
        is_lossy=bool(all_unsure or unsettled or log.header is None),
    )


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
            **({"started": journal_facts.to_json(started, _known_of_start(one))} if started is not None else {}),
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
    return _frame(
        {
            **_head("awaits", number, of),
            "started_wall_ns": wait.started_wall_ns,
            "until_wall_ns": wait.until_wall_ns,
            "within_s": wait.within_s,
        }
    )


def goes_back(number: int, of: OpenEntry) -> bytes:
    """The frame of a roll-back that ends a wait for a confirm."""
    return _frame(_head("goes-back", number, of))


def end(number: int, of: OpenEntry, outcome: str, dated: DatedFact[EndFact] | None = None) -> bytes:
    """The frame of an end. `dated`: the document that tells it, as `bounded` made it."""
    also = {"also": [*of.also]} if of.also else {}
    fact = {"told": journal_facts.to_json(dated, _known_of_end(of, outcome))} if dated is not None else {}
    return _frame({**_head("end", number, of), **also, "outcome": outcome, **fact})


def bounded(fact: EndFact, of: OpenEntry) -> EndFact:
    """The fact of an end, no longer than the room that is reserved for it."""
    return journal_facts.bounded(fact, _known_of_end(of, outcome_of(fact)))


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
    """The most that the end of a switch takes."""
    also = (_HIGHEST_NUMBER, _HIGHEST_NUMBER)
    one = OpenEntry(reconfiguration="x" * 8, run=None, what="", hash="", moves=(), number=_HIGHEST_NUMBER, also=also)
    return journal_facts.END_BYTES + len(end(_HIGHEST_NUMBER, one, _LONGEST_OUTCOME, _LONGEST_END))


@dataclass(slots=True)
class _Log:
    """The readable entries of a file, taken one after the other."""

    header: str | None = None
    kept: frozenset[int] = frozenset()
    next: int = 1
    open: dict[str, OpenEntry] = field(default_factory=dict)
    ended: dict[int, EndedEntry] = field(default_factory=dict)
    sets: dict[str, StoredSet] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    settled: set[int] = field(default_factory=set)

    @property
    def last(self) -> int:
        return max(self.seen, default=0)

    @property
    def missing(self) -> set[int]:
        """Numbers between the first and the last that no entry has."""
        first = self.next if self.header is not None else min(self.seen, default=1)
        return (set(range(first, self.last + 1)) | self.kept) - self.seen

    def take(self, payload: bytes) -> bool:
        """Take an entry; False for an invalid one. Raises ConfigError where another version of hwd wrote it."""
        try:
            entry = json.loads(payload)
            version = int(entry.get("v", 1))
            if version == VERSION:
                self._take(entry)
        except (ValueError, KeyError, TypeError, HwdError):
            return False
        if version != VERSION:
            whose = "a newer" if version > VERSION else "an older"
            raise ConfigError(
                f"journal: written by {whose} hwd (version {version}, this one knows {VERSION}), and left as it is. "
                "Use that hwd, or another data directory"
            )
        return True

    def _take(self, entry: dict[str, Any]) -> None:
        number = int(entry.get("n", 0))
        match entry["entry"]:
            case "journal":
                self.header, self.kept, self.next = str(entry["id"]), frozenset(entry["kept"]), int(entry["next"])
                return
            case "begin" | "lost":
                begun_one = _open_entry(number, entry)
                self.open[begun_one.reconfiguration] = begun_one
                for begun in entry.get("recorded", ()):
                    self.ended.pop(int(begun), None)
            case "prepare":
                self.sets[entry["set"]] = journal_sets.from_json(number, entry)
            case "switch":
                short = SwitchEntry.from_json(entry)
                one = switch_entry(number, short, self.sets[short.prepared_set].prepared)
                self.open[short.reconfiguration] = one
                for begun in entry.get("recorded", ()):
                    self.ended.pop(int(begun), None)
            case "stands":
                self._stand(entry["set"], entry["at"], number)
            case "release":
                self.sets.pop(entry["set"], None)
                self.settled.update((int(entry["of"]), *map(int, entry.get("also", ()))))
            case "awaits":
                self._follow(
                    entry,
                    ConfirmWait(
                        started_wall_ns=int(entry["started_wall_ns"]),
                        until_wall_ns=int(entry["until_wall_ns"]),
                        within_s=float(entry["within_s"]),
                    ),
                )
            case "goes-back":
                self._follow(entry, None)
            case "end":
                ended = self.open.pop(entry["reconfiguration"], None)
                if ended is not None and ended.number == int(entry["of"]):
                    if "told" in entry:
                        self._end(ended, number, str(entry["outcome"]), entry["told"])
                    if entry["outcome"] == _CONFIRMED and (of_set := ended.of_set) is not None:
                        self._stand(of_set.id, of_set.target)
                self.settled.update((int(entry["of"]), *map(int, entry.get("also", ()))))
            case other:
                raise ValueError(f"{other} is no entry of version {VERSION}")
        if number:
            self.seen.add(number)

    def _end(self, one: OpenEntry, number: int, outcome: str, fields: dict[str, Any]) -> None:
        if (fact := journal_facts.end_from_json(fields, _known_of_end(one, outcome))) is not None:
            self.ended[one.number] = EndedEntry(begun=one, number=number, outcome=outcome, dated=fact)

    def _stand(self, id: str, at: str, number: int = 0) -> None:
        """A set is at a target. `number`: of the entry that says so of itself."""
        if (stored := self.sets.get(id)) is not None and stored.prepared.target(at) is not None:
            self.sets[id] = replace(stored, at=at, also=(*stored.also, number) if number else stored.also)

    def _follow(self, entry: dict[str, Any], wait: ConfirmWait | None) -> None:
        """Take what an entry says of the wait of an earlier one. Where that one is lost, its number is missing."""
        id = entry["reconfiguration"]
        if (one := self.open.get(id)) is not None and one.number == int(entry["of"]):
            also = (*one.also, int(entry["n"]))
            self.open[id] = replace(one, wait=wait, also=also)


def _is_torn(data: bytes, at: int) -> bool:
    """Whether a crash cut off the write of the entry at `at`: it ends in zeros, within its reserved room."""
    length = int.from_bytes(data[at : at + 4], "little")
    until = at + _HEADER_BYTES + length
    return length <= FRAME_LIMIT_BYTES and until + _HEADER_BYTES <= len(data) and not any(data[until - 1 :])


def _has_hole(body: bytes, at: int) -> bool:
    """Whether a crash left a sector of the entry at `at` unwritten, and later ones written: no payload has a zero byte.

    Only the last entry can be so: the others were synced, and zeros in them are damage.
    """
    if at == 0 or body.find(START, at + _HEADER_BYTES + 1) >= 0:
        return False
    first = at - at % SECTOR_BYTES
    sectors = range(first, len(body) - SECTOR_BYTES + 1, SECTOR_BYTES)
    return any(not any(body[max(at, sector) : sector + SECTOR_BYTES]) for sector in sectors)


def _doubted(one: OpenEntry, words: str) -> OpenEntry:
    doubt = one.doubt or f"the journal was damaged ({words}), and whether this one had ended is not known"
    return replace(one, wait=None, doubt=doubt, also=())


def _set_doubt(words: str) -> str:
    return f"the journal was damaged ({words}), and whether it had ended is not known"


def _open_entry(number: int, entry: dict[str, Any]) -> OpenEntry:
    if entry["crash_rule"] != Plan.crash_rule:
        raise ValueError(f"{entry['crash_rule']} is no crash rule of version {VERSION}")
    moves = from_plain(entry["moves"], Moves)
    read = OpenEntry(
        reconfiguration=entry["reconfiguration"],
        run=entry["run"],
        what=entry["what"],
        hash=str(entry["hash"]),
        moves=moves,
        number=number,
        terms=from_plain(entry["confirm"], ConfirmTerms) if "confirm" in entry else None,
        wanted=from_plain(entry["wanted"], tuple[WantedSwitch, ...]) if "wanted" in entry else (*wanted_of(moves),),
        doubt=entry.get("doubt", ""),
        overridden=tuple(entry.get("overridden", ())),
        of_set=from_plain(entry["set"], SetSwitch) if "set" in entry else None,
    )
    if (started := entry.get("started")) is None:
        return read
    return replace(read, started=journal_facts.start_from_json(started, _known_of_start(read)))


def _known(one: OpenEntry) -> dict[str, Any]:
    """The fields of a document of its end that its begin says."""
    return {"reconfiguration": one.reconfiguration, "run": one.run, "what": one.what}


def _known_of_end(one: OpenEntry, outcome: str) -> dict[str, Any]:
    """The fields of a document of its end that the end and its begin say besides."""
    wanted = {"wanted": to_plain(one.wanted)} if outcome == _CONFIRMED else {}
    return {**_known(one), "outcome": outcome, **wanted}


def _known_of_start(one: OpenEntry) -> dict[str, Any]:
    """The fields of its first document that its begin says besides."""
    return {
        **_known(one),
        "hash": one.hash,
        **({"prepared_set": one.of_set.id, "target": one.of_set.target} if one.of_set else {}),
        "moves": [{"switch": move.switch, "remove": [*move.remove], "add": [*move.add]} for move in one.moves],
    }


def _head(kind: str, number: int, of: OpenEntry) -> dict[str, Any]:
    """What each entry says that follows another one."""
    return {"entry": kind, "v": VERSION, "n": number, "of": of.number, "reconfiguration": of.reconfiguration}


def _frame(entry: dict[str, Any]) -> bytes:
    return encode_frame(json.dumps(entry, separators=(",", ":")).encode())
