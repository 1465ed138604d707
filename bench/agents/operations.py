"""What a rank's operation costs that asks nobody: the shim alone, against a bare context manager."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.measure import Bar, Summary, alternate, ratios
from bench.progress import Progress
from hwd_agents.shim import Rank
from hwd_agents.transfers.lines import JoinAnswerLine, Line
from hwd_agents.wire import JobJoined, RankPlace

LIMIT_US = 20.0
OPERATIONS = 1000
"""In one turn: one of them takes microseconds."""


@contextlib.contextmanager
def bare() -> Iterator[None]:
    """The floor."""
    yield


def joining(path: Path) -> socket.socket:
    """An agent's socket that lets one rank join."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def answer() -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as lines:
            line = msgspec.json.decode(lines.readline(), type=Line)
            joined = JobJoined(ranks=[RankPlace(host="h0")], groups={"world": [0]})
            connection.sendall(msgspec.json.encode(JoinAnswerLine(id=line.id, outcome="joined", joined=joined)) + b"\n")
            lines.readline()  # until it goes

    threading.Thread(target=answer, daemon=True).start()
    return listener


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    rounds = 10 if quick else 100
    path = folder / "s"
    with (
        joining(path),
        await asyncio.to_thread(lambda: Rank(job="j", number=0, key="k", path=str(path), shim="go")) as rank,
    ):

        async def ours() -> float:
            began_s = time.perf_counter()
            for _ in range(OPERATIONS):
                with rank.operation("world", "all-reduce", size_bytes=4096, within_s=5.0):
                    pass
            return time.perf_counter() - began_s

        async def floor() -> float:
            began_s = time.perf_counter()
            for _ in range(OPERATIONS):
                with bare():
                    pass
            return time.perf_counter() - began_s

        mine, least = await alternate(rounds, ours, floor)
    each = Summary.of([one / OPERATIONS * 1e6 for one in mine])
    over = ratios(mine, least)
    return [
        Bar(
            name="an operation of a rank that asks nobody",
            value=each.median,
            limit=LIMIT_US,
            unit="us",
            spread=f"{each.p25:.1f} to {each.p75:.1f} us; {over.median:.0f}x a bare context manager",
            n=each.n,
            detail={"us": each.to_data(), "ratio": over.to_data()},
        )
    ]
