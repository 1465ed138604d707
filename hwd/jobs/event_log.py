"""EventLog: what the planes of jobs were told. It is written to a file before it counts, and to the records soon after.

log.add("k3v9a1xx", 12, events)                     # at once, without a sync: it survives the death of the daemon
await log.flush()                                   # the records have it: it survives a power cut of its machine
events = await log.events("k3v9a1xx")
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

import msgspec

from hwd.model.job import JobEvent
from hwd.records.job_table import JobTable
from hwd_drivers.core.disk import Disk
from hwd_drivers.core.errors import ConfigError, FailedError, HwdError
from hwd_drivers.core.frames import decode_frames, encode_frame
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import from_json, to_json

GATHER_S: Final = 0.05
"""How long the first event waits for others before the records get them in one transaction."""
RETRY_S: Final = 1.0
"""Between attempts while the records cannot be written."""
CUT_BYTES: Final = 4 << 20
"""With so much in it the file is written anew, with what the records do not have: a sync of a millisecond or some, once
in ten thousand events.
"""
LATER_MOST: Final = 100_000
LATER_BYTES: Final = 64 << 20
"""Events that the records do not have yet; there is no room for more."""

log = logging.getLogger(__name__)


class _EventFrame(msgspec.Struct, frozen=True, kw_only=True):
    """One frame of the file."""

    job: str
    first: int
    events: list[JobEvent]


class EventLog:
    """Owns `disk`, and is a task: `run`. `load` comes first."""

    def __init__(self, disk: Disk, store: JobTable) -> None:
        self._disk = disk
        self._store = store
        self._later: dict[str, tuple[int, list[JobEvent]]] = {}
        """By job: what the records do not have yet, and the number of the first of it."""
        self._count = 0
        self._is_stale = False
        """The disk has half a frame, or its last sync failed: it is written anew before the next one."""
        self._came = asyncio.Event()
        self._writing = asyncio.Lock()

    async def load(self) -> None:
        """Read what an earlier process of the daemon has left. Raises ConfigError where the disk cannot be read."""
        try:
            data = self._disk.read()
        except OSError as error:
            raise ConfigError(f"events of jobs: the disk cannot be read: {reason_of(error)}") from error
        frames = decode_frames(data)
        if frames.torn:  # by a power cut
            left = len(data) - frames.good_bytes
            log.warning("events of jobs: %d of %d bytes cannot be read; the records may have them", left, len(data))
            self._is_stale = True
        known = await self._store.ids() if frames.payloads else frozenset()
        for payload in frames.payloads:
            try:
                added = from_json(payload, _EventFrame)
            except msgspec.MsgspecError as error:
                raise ConfigError(
                    f"events of jobs: written by another version of hwd: {reason_of(error)}. Start and end that one "
                    "first, or remove the file `job-events` in the data directory, and what jobs did last with it"
                ) from error
            if added.job in known:  # else the records that they belong to were deleted
                self._keep(added)
        self._came.set()

    def add(self, job: str, first: int, events: Sequence[JobEvent]) -> None:
        """Add events of a job, numbered from `first` on. Raises FailedError where the disk does not take them."""
        added = _EventFrame(job=job, first=first, events=[*events])
        if self._count + len(events) > LATER_MOST or self._disk.size() > CUT_BYTES + LATER_BYTES:
            raise FailedError(f"events of job {job}: the records have not taken the last {self._count}")
        try:
            if self._is_stale:
                self._rewrite()
            self._disk.append(_frame(added))
        except OSError as error:
            raise FailedError(f"events of job {job}: the disk does not take them: {reason_of(error)}") from error
        self._keep(added)
        self._came.set()

    async def events(self, job: str) -> tuple[JobEvent, ...]:
        """The events of a job, in order."""
        first, events = self._later.get(job, (0, []))
        later = [*events]  # before the read: what goes to the records meanwhile may be in both
        recorded = await self._store.events(job)
        return *recorded, *later[max(0, len(recorded) - first) :]

    async def flush(self) -> None:
        """Return when the records have all that was added before. Raises HwdError where they do not take it."""
        async with self._writing:
            await self._put()
            if self._disk.size() >= CUT_BYTES:
                self._shorten()

    async def close(self) -> None:
        """Flush, and leave nothing in the file for another version of hwd. Raises as `flush` does."""
        await self.flush()
        if self._disk.size():
            self._shorten()

    async def run(self) -> None:
        """Write to the records, until cancelled."""
        refused = ""
        while True:
            await self._came.wait()
            self._came.clear()
            await asyncio.sleep(GATHER_S)
            try:
                await self.flush()
                refused = ""
            except HwdError as error:
                if (why := reason_of(error)) != refused:
                    log.warning("events of jobs are not in the records yet: %s", why)
                    refused = why
                self._came.set()
                await asyncio.sleep(RETRY_S)

    def _keep(self, added: _EventFrame) -> None:
        first, events = self._later.get(added.job, (added.first, []))
        if first + len(events) != added.first:  # a power cut took the ones between, which the records have
            self._count -= len(events)
            first, events = added.first, []
        events += added.events
        self._later[added.job] = first, events
        self._count += len(added.events)

    async def _put(self) -> None:
        for job in [*self._later]:
            first, events = self._later[job]
            upto = first + len(events)
            await self._store.put(job, first, [*events])
            first, events = self._later[job]  # with what came meanwhile, or that alone
            done = max(0, upto - first)
            del events[:done]
            self._count -= done
            if events:
                self._later[job] = first + done, events
            else:
                del self._later[job]

    def _shorten(self) -> None:
        try:
            self._rewrite()
        except OSError as error:
            log.warning("events of jobs: the file cannot be written anew: %s", reason_of(error))

    def _rewrite(self) -> None:
        """Write the file again with what the records do not have."""
        self._is_stale = True
        later = (
            _EventFrame(job=job, first=number, events=[event])
            for job, (first, events) in self._later.items()
            for number, event in enumerate(events, first)
        )
        self._disk.replace(b"".join(map(_frame, later)))
        self._is_stale = False


def _frame(added: _EventFrame) -> bytes:
    return encode_frame(to_json(added))
