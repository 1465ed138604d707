"""An agent that notes when its spool has taken what: `python -m bench.processes.spooler CONFIG`; a line in, all notes
out as JSON.

Each note is [stamp in ns of CLOCK_MONOTONIC_RAW when the write had returned, `at_ns` of each event in it]. It is
a complete agent with its real-time priority; only its files are of a class that stamps writes.
"""

import json
import sys
import threading
import time
from pathlib import Path

import msgspec
from typing_extensions import override

from hwd_agents.process import serve
from hwd_drivers.core.disk import FileDisk
from hwd_drivers.core.frames import decode_frames

APPENDS: list[tuple[int, bytes]] = []


class StampedDisk(FileDisk):
    """Stamps its appends."""

    @override
    def append(self, data: bytes) -> None:
        super().append(data)
        APPENDS.append((time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), data))


def main(config: str) -> None:
    vars(serve).update(FileDisk=StampedDisk)
    threading.Thread(target=_answer, daemon=True).start()
    serve.serve(Path(config), "warning")


def _answer() -> None:
    for _ in sys.stdin:
        print(json.dumps([(done_ns, _events(data)) for done_ns, data in list(APPENDS)]), flush=True)


def _events(data: bytes) -> list[int]:
    frames = [msgspec.json.decode(payload) for payload in decode_frames(data).payloads]
    return [each["at_ns"] for frame in frames for each in frame.get("events", ())]


if __name__ == "__main__":
    main(*sys.argv[1:])
