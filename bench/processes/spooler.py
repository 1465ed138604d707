"""`hwd-agent` that notes when its spool has taken what: `python -m bench.processes.spooler CONFIG`; a line in, all notes out as JSON.

Each note is [stamp in ns of CLOCK_MONOTONIC_RAW when the append had returned, `at_ns` of each event in it]. The agent is the whole of it, under its
real-time priority; only the class of its file is one that looks at the clock.
"""

import json
import sys
import threading
import time
from pathlib import Path

import msgspec
from typing_extensions import override

from hwd_agents import cli
from hwd_drivers.kit.disk import FileDisk, decode_frames

APPENDS: list[tuple[int, bytes]] = []


class StampedDisk(FileDisk):
    """Stamps its appends."""

    @override
    def append(self, data: bytes) -> None:
        super().append(data)
        APPENDS.append((time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), data))


def main(config: str) -> None:
    vars(cli)["FileDisk"] = StampedDisk
    threading.Thread(target=_answer, daemon=True).start()
    cli.run(Path(config), "warning")


def _answer() -> None:
    for _ in sys.stdin:
        print(json.dumps([(at_ns, _events(data)) for at_ns, data in list(APPENDS)]), flush=True)


def _events(data: bytes) -> list[int]:
    frames = [msgspec.json.decode(payload) for payload in decode_frames(data).payloads]
    return [event["at_ns"] for frame in frames for event in frame.get("events", ())]


if __name__ == "__main__":
    main(*sys.argv[1:])
