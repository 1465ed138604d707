"""`hwd-agent` that notes when its spool has taken what: `python -m bench.processes.spooler CONFIG`; a line in, all notes out as JSON.

Each note is [stamp in ns of CLOCK_MONOTONIC_RAW when the write had returned, `at_ns` of the notice, or of each event, in it]. The agent is the whole of it, under its
real-time priority; only the classes of its files are some that look at the clock.
"""

import json
import sys
import threading
import time
from pathlib import Path

import msgspec
from typing_extensions import override

from hwd_agents.process import main as cli
from hwd_agents.spool.notice_pad import NoticePad
from hwd_drivers.core.disk import FileDisk, decode_frames

APPENDS: list[tuple[int, bytes]] = []
PUTS: list[tuple[int, int]] = []


class StampedDisk(FileDisk):
    """Stamps its appends."""

    @override
    def append(self, data: bytes) -> None:
        super().append(data)
        APPENDS.append((time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), data))


class StampedPad(NoticePad):
    """Stamps its notices."""

    @override
    def put(self, at_ns: int, size: int) -> None:
        NoticePad.put(self, at_ns, size)  # nothing is looked up for it that an agent would not
        PUTS.append((time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), at_ns))


def main(config: str) -> None:
    vars(cli).update(FileDisk=StampedDisk, NoticePad=StampedPad)
    threading.Thread(target=_answer, daemon=True).start()
    cli.serve(Path(config), "warning")


def _answer() -> None:
    for _ in sys.stdin:
        notices = [(done_ns, [at_ns]) for done_ns, at_ns in list(PUTS)]
        events = [(done_ns, _events(data)) for done_ns, data in list(APPENDS)]
        print(json.dumps(sorted(notices + events)), flush=True)


def _events(data: bytes) -> list[int]:
    frames = [msgspec.json.decode(payload) for payload in decode_frames(data).payloads]
    return [each["at_ns"] for frame in frames for each in frame.get("events", ())]


if __name__ == "__main__":
    main(*sys.argv[1:])
