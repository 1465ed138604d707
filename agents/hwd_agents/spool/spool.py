"""Spool: stores the events that the daemon does not have yet, of this and of earlier boots of the agent, on a Disk."""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from hwd_agents.spool import file as spool_file
from hwd_agents.spool.disk_trouble import next_step, read, set_aside
from hwd_agents.spool.file import AckedFrame, BatchFrame, BootFrame
from hwd_agents.spool.lost_events import Loss, StoredEvent, damaged, encode_event, lost
from hwd_agents.wire import EVENTS_MAX, TEXT_MOST, Event, clipped
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.disk import Disk
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import from_json

LIMIT_LEAST_BYTES: Final = 16 * 1024
"""The smallest limit: one batch must fit."""
KEPT_AFTER_DROP: Final = 0.75
"""A full spool drops its oldest events down to this part of the limit, so that one rewrite serves many events."""
RETRY_MOST: Final = 256
"""A failing disk is tried again after 1, 2, 4 ... and at last each 256 flushes."""

Mark = dict[str, Any]
_log = logging.getLogger(__name__)


class Spool:
    """One file, one writer. Events get their `seq` here; `flush` writes them with one append, before they may be sent.

        spool = Spool(FileDisk(path), boot=boot, clock=clock, limit_bytes=16 << 20)
        spool.add(event); spool.flush(); spool.batch(boot, after=0)

    A killed process loses nothing that was flushed; a power cut may lose what was not synced yet (`SpoolSync`), with
    the marks of it. Marks are small values by name, such as a watcher's last carrier count. They are written in the
    same frame as the events that they belong to, so that neither exists without the other. `clock_name` names the clock
    that stamps the events of this boot: boots with the same name have the same clock. `on_trouble` is called when
    `trouble` or `lost` has changed, `on_written` when there is something to sync.
    """

    def __init__(
        self,
        disk: Disk,
        *,
        boot: str,
        clock: Clock,
        limit_bytes: int,
        clock_name: str = "",
        on_trouble: Callable[[], None] = lambda: None,
    ) -> None:
        if limit_bytes < LIMIT_LEAST_BYTES:
            raise ConfigError(
                f"spool: a limit of {limit_bytes} bytes is too small. Use {LIMIT_LEAST_BYTES} bytes or more"
            )
        self._disk = disk
        self.boot = boot
        """The boot of the events that are added."""
        self._clock = clock
        self._limit_bytes = limit_bytes
        self._on_trouble = on_trouble
        self.on_written: Callable[[], None] = lambda: None
        self._clocks: dict[str, str] = {}
        self._named = False
        self._boots: dict[str, deque[StoredEvent]] = {}
        self.events: Mapping[str, Sequence[StoredEvent]] = self._boots
        """The events in the spool by boot, the oldest boot and the oldest event first; this boot is the last."""
        self.marks: dict[str, Mark] = {}
        """The last value of each mark, of this boot or an earlier one."""
        self._live_bytes = 0
        self._fresh: list[StoredEvent] = []
        self._fresh_marks: dict[str, Mark] = {}
        self._unwritten = bytearray()
        self._rewrite = False
        self._skip = self._failures_in_a_row = 0
        self.next_seq = 1
        """The sequence number of the next event."""
        self.lost = 0
        """How many events were dropped since this boot began."""
        self.disk_failures = 0
        self.disk_why = ""
        self.damaged_bytes = 0
        self._read()
        self._boots[boot] = deque()
        self._clocks[boot] = clock_name

    @property
    def oldest_seq(self) -> int:
        """The oldest event of this boot in the spool; `next_seq` when there is none."""
        held = self._boots[self.boot]
        return held[0].seq if held else self.next_seq - len(self._fresh)

    @property
    def size_bytes(self) -> int:
        """The size of the file."""
        return self._disk.size()

    @property
    def trouble(self) -> str:
        """What is wrong with the file, and the remedy; empty when nothing is."""
        damage = (
            f"{self.damaged_bytes} bytes of its file could not be read when this agent started; "
            "events of an earlier boot may be missing. Look at its disk"
            if self.damaged_bytes
            else ""
        )
        return "; ".join(each for each in (self.disk_why, damage) if each)

    def clock_of(self, boot: str) -> str:
        """The name of the clock that stamps the events of a boot; empty when it is unknown."""
        return self._clocks.get(boot, "")

    def add(self, event: Event, *, marks: Mapping[str, Mark] | None = None) -> int:
        """Take one event for the next `flush`; returns its `seq`, which replaces the one that it has.

        Here it becomes JSON, once: the file and the message have these bytes. Texts that are too long are cut.
        """
        seq = self.next_seq
        raw = encode_event(event if event.seq == seq else msgspec.structs.replace(event, seq=seq))
        if len(raw) > TEXT_MOST:  # shorter JSON has no longer text
            raw = encode_event(msgspec.structs.replace(event, seq=seq, data=clipped(event.data)))
        self.next_seq += 1  # after it is JSON: numbers have no gap
        self._fresh.append(_stored(raw)[1])
        if marks:
            self._fresh_marks.update(marks)
        return seq

    def mark(self, name: str, value: Mark) -> None:
        """Set a mark that belongs to no event."""
        self._fresh_marks[name] = value

    def flush(self) -> None:
        """Write all that was added, in one append.

        A failure of the disk is counted: the events stay in memory and are written later.
        """
        while self._fresh or self._fresh_marks:  # twice, when the first pass adds an event about dropped events
            self._write(self._take_fresh())

    def batch(self, boot: str, *, after: int, upto: int | None = None, limit: int = EVENTS_MAX) -> list[StoredEvent]:
        """The next events of `boot` after `after`, ascending without gaps; empty when there are none."""
        held = self._boots.get(boot)
        if not held or after >= held[-1].seq:
            return []
        start = max(0, after + 1 - held[0].seq)
        if upto is not None:
            limit = min(limit, upto + 1 - held[0].seq - start)
        return list(islice(held, start, start + max(0, limit)))

    def ack(self, boot: str, upto: int) -> int:
        """The daemon has all events of `boot` up to and including `upto`; returns how many were removed."""
        if gone := self._remove(boot, upto):
            self._write(spool_file.encode(AckedFrame(boot=boot, upto=upto)))
            self.flush()
        return gone

    def sync(self) -> None:
        """Return when all that was written would survive a power cut; another thread may call it. Raises OSError."""
        self._disk.sync()

    def sync_failed(self, error: OSError) -> None:
        """The content of the disk is unknown after a failed sync: write everything again."""
        self._failed(error)
        self._rewrite, self._skip = True, 0
        self._write(b"")

    def try_again(self) -> None:
        """Write now what the disk refused, if anything: room on the disk causes no event."""
        if self._failures_in_a_row:
            self._skip = 0
            self._write(b"")
            self.flush()

    def close(self) -> None:
        """Write the rest, durably, and close the file."""
        self.flush()
        try:
            if self._unwritten or self._rewrite:
                self._disk.replace(self._compact())
            self._disk.sync()
        except OSError as error:
            _log.warning("spool: cannot write the remaining events: %s", reason_of(error))
        self._disk.close()

    def _take_fresh(self) -> bytes:
        frames = b""
        if not self._named:
            frames = self._name(self.boot)
            self._named = True
        while self._fresh or self._fresh_marks:
            chunk, self._fresh = self._fresh[:EVENTS_MAX], self._fresh[EVENTS_MAX:]
            marks, self._fresh_marks = self._fresh_marks, {}
            raws: list[bytes] = []
            for stored in chunk:
                raws.append(stored.raw)
                self._live_bytes += len(stored.raw) + 1
            self._boots[self.boot] += chunk
            frames += spool_file.encode_batch(self.boot, raws, marks)
            self.marks.update(marks)
        return frames

    def _name(self, boot: str) -> bytes:
        """The frame that names the clock of a boot's events."""
        clock = self._clocks.get(boot)
        return spool_file.encode(BootFrame(boot=boot, clock=clock)) if clock else b""

    def _read(self) -> None:
        data = read(self._disk, what="the spool", without="events that the daemon does not have yet are lost")
        contents = spool_file.read(data)
        for frame in contents.frames:
            self._take(frame)
        self.damaged_bytes = contents.damaged_bytes
        self._rewrite = bool(contents.damaged_bytes or contents.torn_bytes)
        if self.damaged_bytes:
            _log.error("spool: %s%s", self.trouble, set_aside(self._disk))
        elif contents.torn_bytes:
            _log.info("spool: the last %d bytes are an incomplete frame: its writer was killed", contents.torn_bytes)

    def _take(self, frame: spool_file.Frame) -> None:
        match frame:
            case BootFrame(boot=boot, clock=clock):
                self._clocks[boot] = clock
            case BatchFrame(boot=boot, events=events, marks=marks):
                self.marks.update(marks)
                for raw in events:
                    at_ns, stored = _stored(bytes(raw))
                    held = self._boots.setdefault(boot, deque())
                    due = held[-1].seq + 1 if held else stored.seq
                    for missing in range(due, stored.seq):  # so that numbers have no gap
                        self._hold(boot, damaged(missing, at_ns))
                    if stored.seq >= due:
                        self._hold(boot, stored)
            case AckedFrame(boot=boot, upto=upto):
                self._remove(boot, upto)

    def _remove(self, boot: str, upto: int) -> int:
        """Remove acknowledged events; returns their number."""
        held = self._boots.get(boot, deque())
        gone = 0
        while held and held[0].seq <= upto:
            self._live_bytes -= len(held.popleft().raw) + 1
            gone += 1
        self._forget(boot)
        return gone

    def _forget(self, boot: str) -> None:
        """Forget an earlier boot that has no events left."""
        if boot != self.boot and not self._boots.get(boot):
            self._boots.pop(boot, None)

    def _hold(self, boot: str, stored: StoredEvent) -> None:
        self._boots[boot].append(stored)
        self._live_bytes += len(stored.raw) + 1

    def _write(self, frames: bytes) -> None:
        """Append, with what an earlier failure left. A full file is rewritten; if no event is acknowledged, some go."""
        if self._skip:
            self._skip -= 1
            self._unwritten += frames
        else:
            try:
                self._put(frames)
            except OSError as error:
                self._unwritten += frames
                self._failed(error)
            else:
                if self._failures_in_a_row:
                    self._healed()
        if len(self._unwritten) > self._limit_bytes:  # the disk has failed for long; memory is limited, too
            self._unwritten.clear()
            self._rewrite = True
        if self._live_bytes > self._limit_bytes:
            self._drop_oldest()

    def _put(self, frames: bytes) -> None:
        if self._unwritten:
            frames = bytes(self._unwritten) + frames
        if self._rewrite or self._disk.size() + len(frames) > self._limit_bytes:
            whole = self._compact()
            if len(whole) > self._limit_bytes * KEPT_AFTER_DROP:
                self._drop_oldest()
                whole = self._compact()
            self._disk.replace(whole)
            self._rewrite = False
            self._named = True
        else:
            self._disk.append(frames)
        self._unwritten.clear()
        self.on_written()

    def _failed(self, error: OSError) -> None:
        before, self.disk_why = self.disk_why, self._words(error)
        self.disk_failures += 1
        self._skip = min(2**self._failures_in_a_row - 1, RETRY_MOST)
        self._failures_in_a_row = min(self._failures_in_a_row + 1, 16)
        # a disk in an unknown state can be replaced, not appended to
        self._rewrite = self._rewrite or self._failures_in_a_row > 1
        if not before:
            _log.warning("spool: %s", self.disk_why)
        if before != self.disk_why:
            self._on_trouble()

    def _words(self, error: OSError) -> str:
        most = f"at most {self._limit_bytes >> 10} KiB of them"
        return (
            f"cannot write: {error.strerror or error}; events are kept in memory, {most}, and are lost "
            f"if this agent stops. {next_step(error)}"
        )

    def _healed(self) -> None:
        self._failures_in_a_row = 0
        if self.disk_why:
            self.disk_why = ""
            _log.info("spool: can write again, after %d failures", self.disk_failures)
            self._on_trouble()

    def _compact(self) -> bytes:
        """All current frames, as they would be in a new file."""
        self._clocks = {boot: clock for boot, clock in self._clocks.items() if boot in self._boots}
        data = bytearray()
        if self.marks:
            data += spool_file.encode_batch(self.boot, [], self.marks)
        for boot, held in self._boots.items():
            data += self._name(boot)
            data += spool_file.encode_all(boot, [stored.raw for stored in held])
        return bytes(data)

    def _drop_oldest(self) -> None:
        """Make room, oldest events first, and report it with one event."""
        loss = Loss()
        target = self._limit_bytes * KEPT_AFTER_DROP * 0.75
        for boot in list(self._boots):
            held = self._boots[boot]
            while held and self._live_bytes > target:
                stored = held.popleft()
                self._live_bytes -= len(stored.raw) + 1
                loss.add(boot, stored)
            self._forget(boot)
        if not loss.count:
            return
        self.lost += loss.count
        why = f"the spool was full: its limit is {self._limit_bytes} bytes"
        _log.warning("spool: %d events dropped: %s", loss.count, why)
        ranges = [list(each) for each in loss.ranges]
        self.add(lost(0, self._clock.monotonic_ns(), {"count": loss.count, "why": why, "ranges": ranges}))
        self._on_trouble()


class _Head(msgspec.Struct, frozen=True):
    """The fields of an event that the spool itself needs."""

    seq: int
    at_ns: int
    kind: str


def _stored(raw: bytes) -> tuple[int, StoredEvent]:
    """When an event was, and the event. One that no message may carry, such as of another version in a file, is
    reported as lost: it would block all others.
    """
    try:
        event = from_json(raw, Event)
    except msgspec.MsgspecError as error:
        head = from_json(raw, _Head)
        _log.error("spool: event %d of kind %s cannot be sent, and counts as lost: %s", head.seq, head.kind, error)
        return head.at_ns, damaged(head.seq, head.at_ns)
    return event.at_ns, StoredEvent(event.seq, event.kind, raw)
