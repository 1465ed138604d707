"""The journal: what was about to be done, durable before the first command, so that a crash is finished or undone and never guessed at.

Frames on a `Disk`, as `journal_file` has them. At each begin room is reserved for its end, so that a disk that gets full in between takes that all the same.
"""

import errno
import logging
from contextlib import suppress
from dataclasses import dataclass, replace

from hwd.model.plan import CrashRule, Plan
from hwd.reconfigure import journal_file
from hwd.reconfigure.journal_file import Numbered, OpenEntry
from hwd_drivers.core.disk import Disk
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.reason import reason_of

COMPACT_BYTES = 1 << 20
"""With more than this on disk beside twice what is open, the journal is begun anew with what is open."""
ROOM_BYTES = 16 << 10
"""Reserved at once, where there is so much: each time costs a sync, and this lasts for dozens of reconfigurations."""
LOST_WHAT = "what a damaged journal held"

__all__ = ["Damage", "Journal", "OpenEntry"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """What was wrong with the journal when it was read. `aside`: where its bytes are kept; empty where they could not be copied yet, or there are none.

    `held`: what nobody brings back, or on, until an operator has decided.
    """

    why: str
    aside: str
    held: tuple[str, ...]

    def __str__(self) -> str:
        aside = f"; what it was is kept as {self.aside}" if self.aside else ""
        held = f"held until somebody decides: {', '.join(self.held)}" if self.held else "nothing is lost with it"
        return f"journal: damaged: {self.why}{aside}; {held}"


class Journal:
    """Owner of the journal's `Disk`. Disk calls are made in the loop: an fdatasync costs less than a thread and must come first anyway."""

    def __init__(self, disk: Disk, *, sync: bool = True) -> None:
        self._disk = disk
        self._sync = sync
        self._open: dict[str, Numbered] = {}
        self._frames: dict[str, bytes] = {}
        """What is open, as it is on the disk."""
        self._next = 1
        self._id = ""
        self._is_loaded = False
        self._is_stale = True
        """What is on the disk is of an older version, damaged, or not known: it is written anew before anything else is."""
        self._refused = ""
        """Why the disk did not take it the last time."""
        self._damage = ""
        self._aside = ""
        self._is_to_keep = False

    def load(self, *, known: str | None = None, fresh: str = "journal") -> tuple[OpenEntry, ...]:
        """Read what is there, cut a torn tail off, and return what is open, oldest first. `known`: the id that the records have of it, None where they have none;
        `fresh`: that of a new one. Raises ConfigError where a newer hwd wrote it, or the disk does not read it.

        What cannot be read is kept aside, and what may be lost with it is open with a `doubt`, until it is ended.
        """
        data = self._read()
        contents = journal_file.read(data, known)
        self._is_loaded = True
        self._id = known or contents.id or fresh
        self._next = contents.next
        for one in contents.open:
            self._put(one)
        self._damage = contents.damage
        self._is_to_keep = bool(contents.damage) and any(data)
        self._is_stale = bool(contents.damage) or contents.id is None or contents.version != journal_file.VERSION
        if contents.is_lossy:
            self._put(self._lost())
        try:
            if self._sync:
                self._sync_read()
            if not self._is_stale:
                self._rewind(contents.ends)
                self._hold_room(0)
            else:
                self._write_anew()
        except OSError as error:
            self._refused = reason_of(error)
            log.warning("journal: cannot be written yet, and takes no reconfiguration until it can: %s", self._refused)
        if self.damage is not None:
            log.error("%s", self.damage)
        return self.open

    @property
    def id(self) -> str:
        """The name that the records know it by."""
        return self._id

    @property
    def is_written(self) -> bool:
        """Whether the disk has it, by that name: not where it could not be written since it was read."""
        return self._is_loaded and not self._is_stale

    @property
    def trouble(self) -> str:
        """Why it takes nothing now; empty where nothing is known against it."""
        if not self._is_loaded or not self._is_stale:
            return ""
        return f"journal: cannot be written yet: {self._refused}. It takes no reconfiguration until it can, which is tried every few seconds. Look at the disk of the data directory"

    @property
    def open(self) -> tuple[OpenEntry, ...]:
        return tuple(one.entry for one in self._open.values())

    @property
    def damage(self) -> Damage | None:
        """What `load` found wrong."""
        if not self._damage:
            return None
        held = tuple(id for id, one in self._open.items() if one.entry.doubt)
        return Damage(why=self._damage, aside=self._aside, held=held)

    def begin(self, plan: Plan, *, reconfiguration: str, run: str | None) -> None:
        """Durable when it returns, with room for its end. Raises OSError when the disk does not take it: then nothing may be driven."""
        self._prepare()
        entry = OpenEntry(
            reconfiguration=reconfiguration, run=run, what=plan.what, moves=plan.moves, crash_rule=plan.crash_rule
        )
        one = Numbered(number=self._next, hash=plan.hash, entry=entry)
        frame = journal_file.begin(one)
        self._hold_room(len(frame) + journal_file.end_bytes(one))
        self._append(frame)
        self._put(one)

    def end(self, reconfiguration: str, *, outcome: str) -> None:
        """The switches are where the journal says that they shall be, or are left as they are. Durable when it returns; raises OSError where it is not, and it stays open."""
        self._prepare()
        if (one := self._open.get(reconfiguration)) is None:
            return
        self._append(journal_file.end(self._next, one, outcome))
        self._open.pop(reconfiguration)
        self._frames.pop(reconfiguration)
        there = sum(map(len, self._frames.values()))
        if self._disk.size() > COMPACT_BYTES + 2 * there:
            try:
                self._write_anew()
            except OSError as error:
                log.warning("journal: cannot begin anew, it goes on growing: %s", reason_of(error))

    def write_again(self) -> None:
        """Try what the disk did not take before; `trouble` says why where it still does not."""
        if not self.trouble:
            return
        try:
            self._write_anew()
        except OSError as error:
            self._refused = reason_of(error)
        else:
            log.info("journal: is written now")

    def _read(self) -> bytes:
        try:
            return self._disk.read()
        except OSError as error:
            raise ConfigError(
                f"{error.filename or 'journal'}: the journal cannot be read: {reason_of(error)}. Copy its folder to another disk, then move the journal away and start again: the switches that it may concern are held then until you decide"
            ) from error

    def _distrust(self, error: OSError) -> None:
        """What is on the disk is not known any more."""
        self._is_stale = True
        self._refused = reason_of(error)

    def _sync_read(self) -> None:
        """A life before may have died between a write and its sync: a power cut would take back what was read now. Raises OSError; then all is written anew first."""
        try:
            self._disk.sync()
        except OSError as error:
            self._distrust(error)
            raise

    def _prepare(self) -> None:
        if not self._is_loaded:
            self.load()
        if self._is_stale:
            self._write_anew()

    def _put(self, one: Numbered) -> None:
        if not one.number:  # of version 1
            one = replace(one, number=self._next)
        self._open[one.entry.reconfiguration] = one
        self._frames[one.entry.reconfiguration] = journal_file.begin(one)
        self._next = max(self._next, one.number + 1)

    def _lost(self) -> Numbered:
        """Stands for what nobody can read any more."""
        doubt = f"the journal was damaged ({self._damage}), and may have held a reconfiguration that was cut off, of any switch"
        id = f"damage-{self._next}"
        entry = OpenEntry(
            reconfiguration=id, run=None, what=LOST_WHAT, moves=(), crash_rule=CrashRule.ROLL_BACK, doubt=doubt
        )
        return Numbered(number=self._next, hash="", entry=entry)

    def _append(self, frame: bytes) -> None:
        before = self._disk.size()
        try:
            self._disk.append(frame)
            if self._sync:
                self._disk.sync()
        except OSError:
            with suppress(OSError):
                self._rewind(before)
            raise
        self._next += 1

    def _rewind(self, size: int) -> None:
        """Raises OSError, and then all is written anew first: half a frame would hide every later one."""
        try:
            self._disk.rewind(size)
        except OSError as error:
            self._distrust(error)
            raise

    def _hold_room(self, size: int) -> None:
        """For `size` more bytes, and the ends of all that is open."""
        size += self._ends_bytes()
        if self._disk.room() >= size:
            return
        try:
            try:
                self._disk.reserve(size + ROOM_BYTES)
            except OSError:
                self._disk.reserve(size)
        except OSError as error:
            if (
                error.errno == errno.EIO
            ):  # what is on the disk is not known any more; one that is full keeps what it has
                self._distrust(error)
            raise

    def _ends_bytes(self) -> int:
        return journal_file.TAIL_BYTES + sum(map(journal_file.end_bytes, self._open.values()))

    def _write_anew(self) -> None:
        """With what is open and nothing else. What was damaged is set aside before."""
        if self._is_to_keep:
            self._aside = self._disk.set_aside()
            self._is_to_keep = False
        kept = sorted(one.number for one in self._open.values())
        head = journal_file.first(self._id, kept=kept, next=self._next)
        room = self._ends_bytes()
        try:
            self._disk.replace(head + b"".join(self._frames.values()), reserve=room + ROOM_BYTES)
        except OSError:
            self._disk.replace(head + b"".join(self._frames.values()), reserve=room)
        self._is_stale = False
