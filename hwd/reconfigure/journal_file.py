"""What stands in the journal's file: entries in frames, and what can be known of them after a crash or from a damaged disk.

Each payload is one JSON object. `entry` comes first, which is where reading goes on behind damage:

- `journal`: the first. `id` names the journal, the records know it too; `kept`: numbers of entries that were open when it was written; `next`: that of the first
  entry behind those.
- `begin`: a reconfiguration with its moves and rule. `doubt`: why nobody may go by it.
- `lost`: a damaged journal may have held more that was open; `doubt` says why.
- `end`: of the entry whose number is `of`.

All carry their version `v`, and all but the first their number `n`: one that is missing is noticed. Behind the last there is room, as zeros, for the ends of
all that is open and never less than `TAIL_BYTES`: a file without it was cut off. Version 1 had neither numbers nor room nor a first entry.
"""

import json
from dataclasses import dataclass, field, replace
from typing import Any, Final

from hwd.model.plan import CrashRule, SwitchMoves
from hwd_drivers.core.disk import FRAME_LIMIT_BYTES, SECTOR_BYTES, decode_frames, encode_frame
from hwd_drivers.core.errors import ConfigError, HwdError
from hwd_drivers.core.values import Crossconnect

VERSION: Final = 2
START: Final = b'{"entry":"'
TAIL_BYTES: Final = 64
_HEADER_BYTES: Final = 8
"""Zeros behind the last entry that no beginning of another one can be."""
_LONGEST_OUTCOME: Final = "rolled-back-or-given-up"
_HIGHEST_NUMBER: Final = 10**15

Moves = tuple[SwitchMoves, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEntry:
    """A reconfiguration that was begun and has not ended. `doubt`: why nobody may bring it back, or on, until an operator has decided; without `moves` it is
    one, or more, of which a damaged journal tells nothing: any switch may be of it."""

    reconfiguration: str
    run: str | None
    what: str
    moves: Moves
    crash_rule: CrashRule
    doubt: str = ""

    def concerns(self, switch: str) -> bool:
        return any(move.switch == switch for move in self.moves) or (bool(self.doubt) and not self.moves)


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbered:
    """An open entry, and its number; 0 for one that version 1 wrote."""

    number: int
    hash: str
    entry: OpenEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a file held. `ends`: where its last readable entry ends. `damage`: what is wrong with it, empty where nothing is; then `is_lossy` says whether something
    that is open, or an end, may be lost: all that is open and may have ended has its `doubt`."""

    id: str | None = None
    version: int = VERSION
    open: tuple[Numbered, ...] = ()
    next: int = 1
    ends: int = 0
    damage: str = ""
    is_lossy: bool = False


def read(data: bytes, known: str | None) -> Contents:
    """Of what `Disk.read` returned. `known`: the journal that the records know, None where they know of none."""
    body = data.rstrip(b"\0")
    frames = decode_frames(body, resume=START)
    if _has_hole(body, frames.good_bytes):
        body = body[: frames.good_bytes]
        frames = decode_frames(body, resume=START)
    told = _Told()
    strange_bytes = sum(len(payload) for payload in frames.payloads if not told.take(payload))
    tail = body[frames.read_bytes :]
    if told.version == 1 and known is None:
        return _of_version_1(told, frames.damaged_bytes + strange_bytes, frames.read_bytes, len(body))
    if not body:
        return Contents(damage="it is empty, or gone", is_lossy=True)
    cut = (bool(tail) and not _is_torn(data, frames.read_bytes)) or len(data) - len(body) < _HEADER_BYTES
    damage: list[str] = []
    if frames.damaged_bytes + strange_bytes:
        damage.append(f"{frames.damaged_bytes + strange_bytes} of its {len(data)} bytes cannot be read")
    if told.header is None:
        damage.append("its first entry cannot be read")
    elif known not in (None, told.header):
        damage.append(f"it is journal {told.header}, and the records belong to journal {known}")
    if cut:
        damage.append("its end is missing")
    missing = told.missing
    unsettled = missing - told.settled
    all_unsure = cut or bool(strange_bytes) or known not in (None, told.header)
    if missing and not damage:
        damage.append(f"it lacks {len(missing)} entries")
    words = ", ".join(damage)

    def doubted(one: Numbered) -> Numbered:
        may_have_ended = all_unsure or any(number > one.number for number in unsettled)
        return _doubted(one, words) if may_have_ended else one

    return Contents(
        id=told.header,
        open=tuple(map(doubted, told.open.values())),
        next=max(told.last + 1, told.next),
        ends=frames.read_bytes,
        damage=words,
        is_lossy=bool(all_unsure or unsettled or told.header is None),
    )


def first(id: str, *, kept: list[int], next: int) -> bytes:
    """The frame at the beginning."""
    return _frame({"entry": "journal", "v": VERSION, "id": id, "kept": kept, "next": next})


def begin(one: Numbered) -> bytes:
    """The frame of what is open, or lost."""
    entry = one.entry
    return _frame(
        {
            "entry": "begin" if entry.moves else "lost",
            "v": VERSION,
            "n": one.number,
            "reconfiguration": entry.reconfiguration,
            "run": entry.run,
            "what": entry.what,
            "hash": one.hash,
            "crash_rule": entry.crash_rule,
            "moves": [
                {
                    "switch": move.switch,
                    "remove": [str(crossconnect) for crossconnect in move.remove],
                    "add": [str(crossconnect) for crossconnect in move.add],
                    "keep": [str(crossconnect) for crossconnect in move.keep],
                    "before": [str(crossconnect) for crossconnect in move.before],
                    "failed": [str(crossconnect) for crossconnect in move.failed],
                    "lasting": [str(crossconnect) for crossconnect in move.lasting],
                }
                for move in entry.moves
            ],
            **({"doubt": entry.doubt} if entry.doubt else {}),
        }
    )


def end(number: int, of: Numbered, outcome: str) -> bytes:
    """The frame of an end."""
    id = of.entry.reconfiguration
    return _frame(
        {"entry": "end", "v": VERSION, "n": number, "of": of.number, "reconfiguration": id, "outcome": outcome}
    )


def end_bytes(of: Numbered) -> int:
    """The longest that its end can be."""
    return len(end(_HIGHEST_NUMBER, replace(of, number=_HIGHEST_NUMBER), _LONGEST_OUTCOME))


@dataclass(slots=True)
class _Told:
    """What the readable entries of a file say, one after the other."""

    version: int = 1
    header: str | None = None
    kept: frozenset[int] = frozenset()
    next: int = 1
    open: dict[str, Numbered] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    settled: set[int] = field(default_factory=set)

    @property
    def last(self) -> int:
        return max(self.seen, default=0)

    @property
    def missing(self) -> set[int]:
        """Numbers between the first and the last that nobody has seen."""
        first = self.next if self.header is not None else min(self.seen, default=1)
        return (set(range(first, self.last + 1)) | self.kept) - self.seen

    def take(self, payload: bytes) -> bool:
        """False where it makes no sense. Raises ConfigError where a newer hwd wrote it."""
        try:
            entry = json.loads(payload)
            version = int(entry.get("v", 1))
            if version <= VERSION:
                self._take(entry)
        except (ValueError, KeyError, TypeError, HwdError):
            return False
        if version > VERSION:
            raise ConfigError(
                f"journal: written by a newer hwd (version {version}, this one knows {VERSION}). Use that hwd, or another data directory"
            )
        self.version = max(self.version, version)
        return True

    def _take(self, entry: dict[str, Any]) -> None:
        number = int(entry.get("n", 0))
        match entry["entry"]:
            case "journal":
                self.header, self.kept, self.next = str(entry["id"]), frozenset(entry["kept"]), int(entry["next"])
                return
            case "begin" | "lost":
                open_entry = _open_entry(entry)
                self.open[open_entry.reconfiguration] = Numbered(
                    number=number, hash=str(entry["hash"]), entry=open_entry
                )
            case "end":
                self.open.pop(entry["reconfiguration"], None)
                self.settled.add(int(entry.get("of", 0)))
            case other:
                raise ValueError(f"{other} is no entry of version {VERSION}")
        if number:
            self.seen.add(number)


def _of_version_1(told: _Told, damaged_bytes: int, ends: int, size: int) -> Contents:
    """What 0.1.0 wrote: entries without numbers, so that behind damage nothing is sure. The beginning of one at the end is a write that a crash cut off."""
    words = f"{damaged_bytes} of its {size} bytes cannot be read" if damaged_bytes else ""
    entries = told.open.values()
    return Contents(
        version=1,
        open=tuple(_doubted(one, words) for one in entries) if words else tuple(entries),
        ends=ends,
        damage=words,
        is_lossy=bool(words),
    )


def _is_torn(data: bytes, at: int) -> bool:
    """Whether what is at `at` is an entry that was being written: it ends in zeros, within the room that was made for it first."""
    length = int.from_bytes(data[at : at + 4], "little")
    until = at + _HEADER_BYTES + length
    return length <= FRAME_LIMIT_BYTES and until + _HEADER_BYTES <= len(data) and not any(data[until - 1 :])


def _has_hole(body: bytes, at: int) -> bool:
    """Whether what is at `at` is an entry of which a whole sector was not written, and later ones were: no payload has a zero byte.

    Nothing may be behind it: what was written before another entry was synced, and zeros in it are damage.
    """
    if at == 0 or body.find(START, at + _HEADER_BYTES + 1) >= 0:
        return False
    first = at - at % SECTOR_BYTES
    sectors = range(first, len(body) - SECTOR_BYTES + 1, SECTOR_BYTES)
    return any(not any(body[max(at, sector) : sector + SECTOR_BYTES]) for sector in sectors)


def _doubted(one: Numbered, words: str) -> Numbered:
    doubt = one.entry.doubt or f"the journal was damaged ({words}), and whether this one had ended is not known"
    return replace(one, entry=replace(one.entry, doubt=doubt))


def _open_entry(entry: dict[str, Any]) -> OpenEntry:
    def crossconnects(texts: list[str]) -> tuple[Crossconnect, ...]:
        return tuple(Crossconnect.parse(text) for text in texts)

    return OpenEntry(
        reconfiguration=entry["reconfiguration"],
        run=entry["run"],
        what=entry["what"],
        crash_rule=CrashRule(entry["crash_rule"]),
        moves=tuple(
            SwitchMoves(
                switch=move["switch"],
                remove=crossconnects(move["remove"]),
                add=crossconnects(move["add"]),
                keep=crossconnects(move["keep"]),
                before=crossconnects(move["before"]),
                failed=crossconnects(move.get("failed", [])),
                lasting=crossconnects(move.get("lasting", [])),
            )
            for move in entry["moves"]
        ),
        doubt=entry.get("doubt", ""),
    )


def _frame(entry: dict[str, Any]) -> bytes:
    return encode_frame(json.dumps(entry, separators=(",", ":")).encode())
