"""The journal: what was about to be done, durable before the first command, so that a crash is finished or undone and never guessed at.

Append-only frames on a `Disk`; each payload is one JSON object with `entry`: `begin` (a reconfiguration with its moves and rule) or `end`.
"""

import json
import logging
from dataclasses import dataclass
from typing import Any

from hwd.model.plan import CrashRule, Plan, SwitchMoves
from hwd_drivers.kit.disk import Disk, decode_frames, encode_frame
from hwd_drivers.kit.values import Crossconnect

COMPACT_BYTES = 1 << 20
"""With more than this on disk beside twice what is open, the journal is begun anew with what is open."""


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEntry:
    """A reconfiguration that was begun and has not ended."""

    reconfiguration: str
    run: str | None
    what: str
    moves: tuple[SwitchMoves, ...]
    crash_rule: CrashRule


class Journal:
    """Owner of the journal's `Disk`. Disk calls are made in the loop: an fdatasync costs less than a thread and must come first anyway."""

    def __init__(self, disk: Disk, *, sync: bool = True) -> None:
        self._disk = disk
        self._sync = sync
        self._open: dict[str, OpenEntry] = {}
        self._frames: dict[str, bytes] = {}
        """What is open, as it is on the disk."""

    def load(self) -> tuple[OpenEntry, ...]:
        """Read what is there, cut a torn tail off, and return what is open, oldest first."""
        frames = decode_frames(self._disk.read())
        if frames.torn:
            self._disk.truncate(frames.good_bytes)
        for payload in frames.payloads:
            entry = json.loads(payload)
            if entry["entry"] == "begin":
                self._put(_read_begin(entry), encode_frame(payload))
            else:
                self._drop(entry["reconfiguration"])
        return self.open

    @property
    def open(self) -> tuple[OpenEntry, ...]:
        return tuple(self._open.values())

    def begin(self, plan: Plan, *, reconfiguration: str, run: str | None) -> None:
        """Durable when it returns. Raises OSError when the disk does not take it: then nothing may be driven."""
        entry = OpenEntry(
            reconfiguration=reconfiguration, run=run, what=plan.what, moves=plan.moves, crash_rule=plan.crash_rule
        )
        frame = _frame(_write_begin(entry, plan.hash))
        self._append(frame)
        self._put(entry, frame)

    def end(self, reconfiguration: str, *, outcome: str) -> None:
        """The switches are where the journal says that they shall be."""
        self._append(_frame({"entry": "end", "reconfiguration": reconfiguration, "outcome": outcome}))
        self._drop(reconfiguration)
        if self._disk.size() > COMPACT_BYTES:
            self._compact()

    def _compact(self) -> None:
        there = b"".join(self._frames.values())
        if self._disk.size() <= COMPACT_BYTES + 2 * len(there):
            return
        try:
            self._disk.replace(there)
        except OSError as error:
            log.warning("journal: cannot begin anew, it goes on growing: %s", error)

    def _put(self, entry: OpenEntry, frame: bytes) -> None:
        self._open[entry.reconfiguration] = entry
        self._frames[entry.reconfiguration] = frame

    def _drop(self, reconfiguration: str) -> None:
        self._open.pop(reconfiguration, None)
        self._frames.pop(reconfiguration, None)

    def _append(self, frame: bytes) -> None:
        before = self._disk.size()
        try:
            self._disk.append(frame)
            if self._sync:
                self._disk.sync()
        except OSError:
            self._disk.truncate(before)  # half a frame would hide every later one
            raise


def _frame(entry: dict[str, Any]) -> bytes:
    return encode_frame(json.dumps(entry, separators=(",", ":")).encode())


def _write_begin(entry: OpenEntry, plan_hash: str) -> dict[str, Any]:
    return {
        "entry": "begin",
        "reconfiguration": entry.reconfiguration,
        "run": entry.run,
        "what": entry.what,
        "hash": plan_hash,
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
    }


def _read_begin(entry: dict[str, Any]) -> OpenEntry:
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
    )
