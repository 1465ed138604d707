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
from dataclasses import dataclass, field, replace
from typing import Any, Final

from hwd.model.desired_state import wanted_of
from hwd.model.plan import Plan
from hwd.model.plural import plural
from hwd.model.prepared_set import SetSwitch
from hwd.model.reconfiguration import WantedSwitch
from hwd.reconfigure.apply.confirm_wait import ConfirmTerms, ConfirmWait
from hwd.reconfigure.journal import facts as journal_facts
from hwd.reconfigure.journal import sets as journal_sets
from hwd.reconfigure.journal.entries import CONFIRMED, EndedEntry, Moves, OpenEntry, switch_entry
from hwd.reconfigure.journal.frames import VERSION
from hwd.reconfigure.journal.sets import StoredSet, SwitchEntry
from hwd_drivers.core.disk import SECTOR_BYTES
from hwd_drivers.core.errors import ConfigError, HwdError
from hwd_drivers.core.frames import FRAME_LIMIT_BYTES, decode_frames
from hwd_drivers.core.structs import from_plain

START: Final = b'{"entry":"'
TAIL_BYTES: Final = 64
_HEADER_BYTES: Final = 8
"""Zeros behind the last entry that no beginning of another one can be."""


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

    return Contents(
        id=log.header,
        open=tuple(_doubted(one, words) if may_have_ended(one.number) else one for one in log.open.values()),
        ended=tuple(log.ended.values()) if known in (None, log.header) else (),
        sets=tuple(_doubted_set(one, words) if may_have_ended(one.number) else one for one in log.sets.values()),
        next=max(log.last + 1, log.next),
        ends=frames.read_bytes,
        damage=words,
        is_lossy=bool(all_unsure or unsettled or log.header is None),
    )


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
                short = from_plain(entry, SwitchEntry)
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
                self._follow(entry, from_plain(entry, ConfirmWait))
            case "goes-back":
                self._follow(entry, None)
            case "end":
                ended = self.open.pop(entry["reconfiguration"], None)
                if ended is not None and ended.number == int(entry["of"]):
                    if "told" in entry:
                        self._end(ended, number, str(entry["outcome"]), entry["told"])
                    if entry["outcome"] == CONFIRMED and (of_set := ended.of_set) is not None:
                        self._stand(of_set.id, of_set.target)
                self.settled.update((int(entry["of"]), *map(int, entry.get("also", ()))))
            case other:
                raise ValueError(f"{other} is no entry of version {VERSION}")
        if number:
            self.seen.add(number)

    def _end(self, one: OpenEntry, number: int, outcome: str, fields: dict[str, Any]) -> None:
        if (fact := journal_facts.end_from_json(fields, one.known_of_end(outcome))) is not None:
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


def _doubted_set(one: StoredSet, words: str) -> StoredSet:
    doubt = one.doubt or f"the journal was damaged ({words}), and whether it had ended is not known"
    return replace(one, doubt=doubt)


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
    return replace(read, started=journal_facts.start_from_json(started, read.known_of_start))
