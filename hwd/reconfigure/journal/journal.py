"""The journal: every plan, durable before its first command, so that after a crash it is undone without a guess.

It writes the frames of `journal_file` to a `Disk`, each synced but for the switch of a prepared set. Each begin
reserves room for its end, and for its wait for a confirm where it will have one, so that a full disk still takes them.
How one began and ended stays in it until the records have committed that.
"""

import errno
import logging
from contextlib import suppress
from dataclasses import dataclass, replace

from hwd.model.prepared_set import PreparedSet
from hwd.model.reconfiguration import EndFact, outcome_of
from hwd.reconfigure.apply.confirm_wait import ConfirmWait
from hwd.reconfigure.journal import facts as journal_facts
from hwd.reconfigure.journal import file as journal_file
from hwd.reconfigure.journal import frames
from hwd.reconfigure.journal.entries import CONFIRMED, EndedEntry, OpenEntry, switch_entry
from hwd.reconfigure.journal.facts import DatedFact
from hwd.reconfigure.journal.sets import StoredSet, SwitchEntry
from hwd_drivers.core.disk import Disk
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.reason import reason_of

COMPACT_BYTES = 1 << 20
"""With this much more on disk than twice what is open, the journal is rewritten with what is open."""
ROOM_BYTES = 16 << 10
"""The bytes reserved at a time, where the disk has them: one sync, and enough for dozens of reconfigurations."""
LOST_WHAT = "what a damaged journal held"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """The damage of the journal when it was read.

    `aside`: the file with a copy of its bytes; empty where there is none yet. `held`: reconfigurations that wait for
    the decision of an operator.
    """

    why: str
    aside: str
    held: tuple[str, ...]

    def __str__(self) -> str:
        aside = f"; what it was is kept as {self.aside}" if self.aside else ""
        held = f"held until somebody decides: {', '.join(self.held)}" if self.held else "nothing is lost with it"
        return f"journal: damaged: {self.why}{aside}; {held}"


class Journal:
    """Owns the journal's `Disk`. It writes in the event loop, where an fdatasync costs less than a thread."""

    def __init__(self, disk: Disk, *, sync: bool = True) -> None:
        self._disk = disk
        self._sync = sync
        self._open: dict[str, OpenEntry] = {}
        self._frames: dict[str, bytes] = {}
        """The frames of what is open."""
        self._ended: dict[int, tuple[EndedEntry, bytes]] = {}
        """Ends that the records may lack, with their frames, by the number of the begin."""
        self._recorded: list[int] = []
        """The ends that the records have, which the next begin says."""
        self._recorded_before: dict[str, str] = {}
        """Outcomes of what is open that the records have already: the end itself could not be written yet."""
        self._may_await: set[str] = set()
        """What is open and may still await a confirm: room is reserved for that."""
        self._sets: dict[str, StoredSet] = {}
        self._set_frames: dict[str, bytes] = {}
        """The frames of prepared sets, as they were at the last rewrite."""
        self._has_unsynced = False
        """The last entry is a switch of a prepared set that may not be on the disk yet."""
        self._next = 1
        self._id = ""
        self._is_loaded = False
        self._is_stale = True
        """The disk has damage or unknown bytes: the journal is rewritten before the next entry."""
        self._refused = ""
        """Why the last write failed."""
        self._damage = ""
        self._aside = ""
        self._is_to_keep = False

    def load(self, *, known: str | None = None, fresh: str = "journal") -> tuple[OpenEntry, ...]:
        """Read the journal, cut off a torn tail, and return what is open, oldest first.

        `known`: its id in the records, None where they have none; `fresh`: the id of a new journal. Damaged bytes are
        set aside, and what may be lost with them is open with a `doubt`. Raises ConfigError where another version of
        hwd wrote it, or the disk cannot be read.
        """
        data = self._read()
        contents = journal_file.read(data, known)
        self._is_loaded = True
        self._id = known or contents.id or fresh
        self._next = contents.next
        for one in contents.open:
            self._put_read(one)
        for stored in contents.sets:
            self._put_set(stored)
        for ended in contents.ended:
            both = frames.begin(ended.begun) + frames.end(ended.number, ended.begun, ended.outcome, ended.dated)
            self._ended[ended.begun.number] = ended, both
        self._damage = contents.damage
        self._is_to_keep = bool(contents.damage) and any(data)
        self._is_stale = bool(contents.damage) or contents.id is None
        if contents.is_lossy:
            self._put_read(self._lost())
        try:
            if self._sync:
                self._sync_read()
            if not self._is_stale:
                self._rewind(contents.ends)
                self._hold_room(0)
            else:
                self._rewrite()
        except OSError as error:
            self._refused = reason_of(error)
            log.warning("journal: cannot be written yet, and takes no reconfiguration until it can: %s", self._refused)
        if self.damage is not None:
            log.error("%s", self.damage)
        return self.open

    @property
    def id(self) -> str:
        """Its id in the records."""
        return self._id

    @property
    def is_written(self) -> bool:
        """Whether the disk has it under this id; false while a rewrite after `load` fails."""
        return self._is_loaded and not self._is_stale

    @property
    def trouble(self) -> str:
        """Why the journal takes nothing now; empty where no write has failed."""
        if not self._is_loaded or not self._is_stale:
            return ""
        return (
            f"journal: cannot be written yet: {self._refused}. It takes no reconfiguration until it can, which is "
            "tried every few seconds. Look at the disk of the data directory"
        )

    @property
    def open(self) -> tuple[OpenEntry, ...]:
        return tuple(self._open.values())

    def open_entry(self, reconfiguration: str) -> OpenEntry | None:
        """The entry of one reconfiguration, None where it is not open."""
        return self._open.get(reconfiguration)

    @property
    def sets(self) -> tuple[StoredSet, ...]:
        """Prepared sets that have not ended, oldest first."""
        return tuple(self._sets.values())

    def set(self, id: str) -> StoredSet | None:
        return self._sets.get(id)

    @property
    def ended(self) -> tuple[EndedEntry, ...]:
        """The reconfigurations that have ended and whose end the records may lack, oldest first."""
        return tuple(one for one, _ in self._ended.values())

    @property
    def damage(self) -> Damage | None:
        """What `load` found wrong."""
        if not self._damage:
            return None
        held = tuple(id for id, one in self._open.items() if one.doubt)
        return Damage(why=self._damage, aside=self._aside, held=held)

    def begin(self, entry: OpenEntry) -> None:
        """Write a begin; durable when it returns, with room for all that may follow. On OSError drive no switch."""
        self._prepare()
        one = replace(entry, number=self._next)
        frame = frames.begin(one, self._recorded)
        self._hold_room(len(frame) + frames.rest_bytes(one, may_await=one.terms is not None))
        self._append(frame)
        self._recorded.clear()
        self._put(one, frame)
        if one.terms is not None:
            self._may_await.add(one.reconfiguration)

    def prepare(self, prepared: PreparedSet, *, at: str) -> None:
        """Write a prepared set whose switches are at this target; durable when it returns, with room for its first
        switch. On OSError there is no such set.
        """
        self._prepare()
        stored = StoredSet(number=self._next, prepared=prepared, at=at)
        frame = frames.prepare(stored)
        self._hold_room(len(frame) + frames.set_rest_bytes(stored, is_switching=False))
        self._append(frame)
        self._put_set(stored, frame)

    def switch(self, entry: SwitchEntry, of: OpenEntry | None = None) -> None:
        """Append a switch between two targets of a set, without a sync: see `sync`. On OSError drive no switch.

        `of`: what follows from the set, where the caller has it already.

        One entry at a time is not on the disk: where the switch of another set is not, that is synced first.
        """
        self._prepare()
        stored = self._sets[entry.prepared_set]
        if of is None:
            one = switch_entry(self._next, entry, stored.prepared)
        else:
            one = replace(of, number=self._next)
        frame = frames.switch(self._next, entry, self._recorded)
        ends = frames.rest_bytes(one, may_await=False) + frames.set_rest_bytes(stored, is_switching=True)
        self._hold_room(len(frame) + ends, but=entry.prepared_set)
        self._append(frame, sync=False)
        self._recorded.clear()
        self._put(one, frame)

    def sync(self) -> None:
        """Sync what `switch` has appended. On OSError the journal is written anew before its next entry."""
        if self._has_unsynced:
            self._sync_read()
            self._has_unsynced = False

    def stand(self, prepared_set: str, *, at: str) -> None:
        """Write at which target the switches of a set were found; durable when it returns."""
        self._prepare()
        stored, number = self._sets[prepared_set], self._next
        self._append(frames.stands(number, stored, at))
        self._sets[prepared_set] = replace(stored, at=at, also=(*stored.also, number))

    def release(self, prepared_set: str) -> None:
        """Write the end of a set; durable when it returns. On OSError it has not ended."""
        self._prepare()
        if (stored := self._sets.get(prepared_set)) is not None:
            self._append(frames.release(self._next, stored))
            del self._sets[prepared_set], self._set_frames[prepared_set]
            for id, one in self._open.items():
                if one.of_set is not None and one.of_set.id == prepared_set:
                    self._frames[id] = frames.begin(one)  # it outlives its set

    def await_confirm(self, reconfiguration: str, wait: ConfirmWait) -> None:
        """Write that an entry with terms awaits its confirm; durable when it returns. On OSError it does not."""
        self._prepare()
        one = self._open[reconfiguration]
        self._follow(one, frames.awaits(self._next, one, wait), wait)
        self._may_await.discard(reconfiguration)

    def go_back(self, reconfiguration: str) -> None:
        """Write that an entry awaits its confirm no more, if it did; durable when it returns."""
        one = self._open.get(reconfiguration)
        if one is not None and one.wait is not None:
            self._prepare()
            self._follow(one, frames.goes_back(self._next, one), None)

    def end(self, reconfiguration: str, *, outcome: str, dated: DatedFact[EndFact] | None = None) -> None:
        """Write an end; durable when it returns. On OSError it stays open.

        `dated`: the document that tells it, of which the journal has as much as it reserved room for, until
        `note_recorded`.
        """
        self._prepare()
        if (one := self._open.get(reconfiguration)) is None:
            return
        number = self._next
        if dated is not None:
            fact = journal_facts.bounded(dated.fact, one.known_of_end(outcome))
            dated = DatedFact(wall_ns=dated.wall_ns, fact=fact)
        frame = frames.end(number, one, outcome, dated)
        self._append(frame)
        self._open.pop(reconfiguration)
        before = self._frames.pop(reconfiguration)
        if one.of_set is not None:
            before = frames.begin(one)  # it may outlive its set
            stored = self._sets.get(one.of_set.id)
            if stored is not None and outcome == CONFIRMED and stored.prepared.target(one.of_set.target) is not None:
                self._sets[one.of_set.id] = replace(stored, at=one.of_set.target)
        self._may_await.discard(reconfiguration)
        if self._recorded_before.pop(reconfiguration, None) != outcome and dated is not None:
            self._ended[one.number] = EndedEntry(begun=one, number=number, outcome=outcome, dated=dated), before + frame
        if self._is_to_compact():
            try:
                self._rewrite()
            except OSError as error:
                log.warning("journal: cannot begin anew, it goes on growing: %s", reason_of(error))
        elif one.of_set is not None:
            with suppress(OSError):  # the next switch tries it again, and is refused where it fails
                self._hold_room(0)

    def note_recorded(self, fact: EndFact) -> None:
        """The records have committed the document of an end."""
        id, outcome = fact.reconfiguration, outcome_of(fact)
        for begun, (one, _) in self._ended.items():
            if one.begun.reconfiguration == id and one.outcome == outcome:
                del self._ended[begun]
                self._recorded.append(begun)
                return
        if id in self._open:
            self._recorded_before[id] = outcome

    def write_again(self) -> str:
        """Try a failed rewrite again; returns `trouble` as it is then."""
        if self._is_loaded and self._is_stale:
            try:
                self._rewrite()
            except OSError as error:
                self._refused = reason_of(error)
            else:
                log.info("journal: is written now")
        return self.trouble

    def _read(self) -> bytes:
        try:
            return self._disk.read()
        except OSError as error:
            raise ConfigError(
                f"{error.filename or 'journal'}: the journal cannot be read: {reason_of(error)}. "
                "Copy its folder to another disk, then move the journal away and start again: "
                "the switches that it may concern are held then until you decide"
            ) from error

    def _distrust(self, error: OSError) -> None:
        """The bytes on the disk are unknown from here on."""
        self._is_stale = True
        self._refused = reason_of(error)

    def _sync_read(self) -> None:
        """Sync what was left without a sync, by an earlier process too. On OSError the journal is rewritten first."""
        try:
            self._disk.sync()
        except OSError as error:
            self._distrust(error)
            raise

    def _prepare(self) -> None:
        if not self._is_loaded:
            self.load()
        if self._is_stale:
            self._rewrite()

    def _put_read(self, one: OpenEntry) -> None:
        frame = frames.begin(one)
        if one.wait is not None:
            frame += frames.awaits(one.also[-1], one, one.wait)
        else:
            one = replace(one, also=())  # a roll-back goes on after a crash as if it had never awaited a confirm
        self._put(one, frame)
        self._next = max(self._next, one.number + 1)

    def _put(self, one: OpenEntry, frame: bytes) -> None:
        self._open[one.reconfiguration] = one
        self._frames[one.reconfiguration] = frame

    def _put_set(self, stored: StoredSet, frame: bytes | None = None) -> None:
        if not stored.number:
            stored = replace(stored, number=self._next)
        id = stored.prepared.id
        self._sets[id] = stored
        self._set_frames[id] = frames.prepare(stored) if frame is None else frame

    def _lost(self) -> OpenEntry:
        doubt = (
            f"the journal was damaged ({self._damage}), and may have held a reconfiguration that "
            "was cut off, of any switch"
        )
        id = f"damage-{self._next}"
        return OpenEntry(
            reconfiguration=id, run=None, what=LOST_WHAT, hash="", moves=(), number=self._next, doubt=doubt
        )

    def _follow(self, one: OpenEntry, frame: bytes, wait: ConfirmWait | None) -> None:
        """Append a frame that sets the wait of an open entry."""
        number, id = self._next, one.reconfiguration
        self._append(frame)
        self._put(replace(one, wait=wait, also=(*one.also, number)), self._frames[id] + frame)

    def _append(self, frame: bytes, *, sync: bool = True) -> None:
        before = self._disk.size()
        try:
            if self._has_unsynced and not sync:
                self._disk.sync()
            self._disk.append(frame)
            if self._sync and sync:
                self._disk.sync()
            self._has_unsynced = self._sync and not sync
        except OSError:
            with suppress(OSError):
                self._rewind(before)
            raise
        self._next += 1

    def _rewind(self, size: int) -> None:
        """Cut off half a frame. On OSError the journal is rewritten first, since half a frame would hide later ones."""
        try:
            self._disk.rewind(size)
        except OSError as error:
            self._distrust(error)
            raise

    def _hold_room(self, size: int, *, but: str = "") -> None:
        """Reserve room for `size` bytes and for all that may follow what is open. `but`: a set that `size` includes."""
        size += self._rest_bytes(but=but)
        if self._disk.room() >= size:
            return
        try:
            try:
                self._disk.reserve(size + ROOM_BYTES)
            except OSError:
                self._disk.reserve(size)
        except OSError as error:
            if error.errno == errno.EIO:  # unlike a full disk, it may have lost bytes
                self._distrust(error)
            raise

    def _rest_bytes(self, *, but: str = "") -> int:
        switching = {one.of_set.id for one in self._open.values() if one.of_set is not None}
        of_open = sum(frames.rest_bytes(one, may_await=id in self._may_await) for id, one in self._open.items())
        of_sets = sum(
            frames.set_rest_bytes(one, is_switching=id in switching) for id, one in self._sets.items() if id != but
        )
        return journal_file.TAIL_BYTES + of_open + of_sets

    def _rewrite(self) -> None:
        """Rewrite it with what is open. Damaged bytes are set aside before."""
        if self._is_to_keep:
            self._aside = self._disk.set_aside()
            self._is_to_keep = False
        of_open = [number for one in self._open.values() for number in (one.number, *one.also)]
        of_ended = [number for one, _ in self._ended.values() for number in (one.begun.number, one.number)]
        of_sets = [one.number for one in self._sets.values()]
        kept = sorted([*of_open, *of_ended, *of_sets])  # a begin without its end must not look open
        sets = {id: replace(one, also=()) for id, one in self._sets.items()}
        set_frames = {id: frames.prepare(one) for id, one in sets.items()}
        head = frames.first(self._id, kept=kept, next=self._next)
        room = self._rest_bytes()
        data = head + b"".join([*set_frames.values(), *self._content()])
        try:
            self._disk.replace(data, reserve=room + ROOM_BYTES)
        except OSError:
            self._disk.replace(data, reserve=room)
        self._sets, self._set_frames = sets, set_frames
        self._recorded.clear()
        self._is_stale = self._has_unsynced = False

    def _is_to_compact(self) -> bool:
        spare_bytes = self._disk.size() - COMPACT_BYTES
        return spare_bytes > 0 and spare_bytes > 2 * sum(map(len, [*self._content(), *self._set_frames.values()]))

    def _content(self) -> list[bytes]:
        """The frames of all that must stay, but for those of sets, which come before them."""
        return [*(frames for _, frames in self._ended.values()), *self._frames.values()]
