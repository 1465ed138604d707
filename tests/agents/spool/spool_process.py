"""Runs many processes in turn on one spool file, each ended by SIGKILL at a random time.

Usage: `python spool_process.py FILE SEED LIVES`; prints what was found after each, one line of JSON per process.

A process writes events in random batches, acknowledges some, and reports each step through a pipe before and after it.
Some kill themselves just before or just after an acknowledgement, since a kill from outside rarely falls there.
"""

import contextlib
import json
import os
import random
import signal
import struct
import sys
from pathlib import Path
from typing import Final

from hwd_agents.spool.spool import LIMIT_LEAST_BYTES, Spool
from hwd_agents.wire import Event
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.disk import FileDisk
from hwd_drivers.core.ids import Draws

LIMIT_BYTES: Final = 4 * LIMIT_LEAST_BYTES
"""Small: it is written anew some times a life."""
DIE_SHARE: Final = 0.02
"""Of the times just before an acknowledgement, and just after."""
REPORT: Final = struct.Struct("=qq")  # flushed up to here; acknowledged up to here, or about to be where negative


def main(path: str, seed: str, lives: str) -> None:
    draw = Draws(int(seed)).stream("lives")
    for number in range(int(lives)):
        boot = f"b{number}"
        flushed, acked = _one(Path(path), boot, draw)
        found = {"boot": boot, "flushed": flushed, "acked": acked, **_found(Path(path), boot)}
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


def _one(path: Path, boot: str, draw: random.Random) -> tuple[int, list[int]]:
    """The last event that was surely flushed, and the acknowledgements that may be the last that was put down."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _live(path, boot, writer, draw)
    os.close(writer)
    reports = b""
    for _ in range(draw.randint(1, 200)):
        reports += os.read(reader, REPORT.size)
    for _ in range(draw.randint(0, 3000)):  # anywhere in what comes next
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while rest := os.read(reader, 1 << 16):
        reports += rest
    os.close(reader)
    flushed, acked = 0, [0]
    for upto, ack in REPORT.iter_unpack(reports[: len(reports) // REPORT.size * REPORT.size]):
        flushed = max(flushed, upto)
        acked = [acked[0], -ack] if ack < 0 else [ack]
    return flushed, acked


def _live(path: Path, boot: str, writer: int, draw: random.Random) -> None:
    """Until it is killed."""
    clock = SystemClock()
    spool = Spool(FileDisk(path), boot=boot, clock=clock, limit_bytes=LIMIT_BYTES)
    for earlier in [*spool.events][:-1]:
        while batch := spool.batch(earlier, after=0):
            spool.ack(earlier, batch[-1].seq)
    draw.seed(boot)
    acked = seq = 0
    while True:
        for _ in range(draw.randint(1, 8)):
            seq = spool.add(_event(spool.next_seq, draw.randint(0, 300)), marks={"last": {"seq": spool.next_seq}})
        spool.flush()
        os.write(writer, REPORT.pack(seq, acked))
        if draw.random() < 0.3:
            upto = draw.randint(acked, seq)
            os.write(writer, REPORT.pack(seq, -upto))
            _perhaps_die(draw)
            spool.ack(boot, upto)
            _perhaps_die(draw)
            acked = max(acked, upto)
            os.write(writer, REPORT.pack(seq, acked))


def _perhaps_die(draw: random.Random) -> None:
    if draw.random() < DIE_SHARE:
        os.kill(os.getpid(), signal.SIGKILL)


def _event(seq: int, size: int) -> Event:
    return Event(
        seq=seq,
        at_ns=seq,
        earliest_ns=seq,
        kind="carrier",
        port="eth0",
        source="link",
        origin="kernel",
        data={"text": "x" * size},
    )


def _found(path: Path, boot: str) -> dict[str, object]:
    disk = FileDisk(path)
    with contextlib.closing(disk):
        spool = Spool(disk, boot="reader", clock=SystemClock(), limit_bytes=LIMIT_BYTES)
        seqs: list[int] = []
        dropped: list[tuple[int, int]] = []
        while batch := spool.batch(boot, after=seqs[-1] if seqs else 0):
            seqs += [event.seq for event in batch]
            told = [event.event.data["ranges"] for event in batch if event.kind == "lost"]
            dropped += [(first, last) for ranges in told for each, first, last in ranges if each == boot]
        return {
            "seqs": seqs,
            "dropped": dropped,
            "mark": spool.marks.get("last", {}).get("seq"),
            "damaged": spool.damaged_bytes,
        }


if __name__ == "__main__":
    main(*sys.argv[1:])
