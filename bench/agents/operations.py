"""The cost of an operation for its rank: one that asks nobody, and one that asks the plane of its job in a daemon."""

import asyncio
import contextlib
import getpass
import json
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import msgspec

from bench.agents.asks import bare_request, payloads
from bench.broker import mosquitto
from bench.lab import NAME, POLL_S, UP_WITHIN_S, Lab, all_aligned
from bench.measure import Bar, Summary, alternate, ratios
from bench.progress import Progress
from hwd.bus.allowance import ASKS_PER_S
from hwd_agents.shim import Rank
from hwd_agents.transfers.client import KEY_VARIABLE, SOCKET_VARIABLE, Transfers
from hwd_agents.transfers.lines import JoinAnswerLine, Line
from hwd_agents.wire import JobJoined, RankPlace

LIMIT_US = 20.0
OPERATIONS = 1000
"""In one turn: one of them takes microseconds."""
ASK_LIMIT = 1.5
PROGRAM = """
import json, os, sys, threading
from pathlib import Path
file = Path(sys.argv[1])
if os.environ["HWD_RANK"] == "0":
    file.with_suffix(".new").write_text(json.dumps(dict(os.environ)))
    file.with_suffix(".new").rename(file)
threading.Event().wait()
"""
"""A rank that lets the bench be it: this writes down what one needs to know, and stays."""
RACK = """
testbed: {name}
switches:
  ocs1: {{driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {{timing: ideal, seed: 7}}}}
hosts:
  h0: {{twin: {{kernel: true, timing: ideal, seed: 1}}, nics: {{eth0: {{ip: 10.1.0.1/32, module: 100g-lr4}}}}}}
  h1: {{twin: {{kernel: true, timing: ideal, seed: 2}}, nics: {{eth0: {{ip: 10.1.0.2/32, module: 100g-lr4}}}}}}
fibres: [h0.eth0 <-> ocs1.1, h1.eth0 <-> ocs1.2]
jobs:
  asks:
    command: [{python}, {program}, {told}]
    user: {user}
    hosts: [h0, h1]
    plane: static topology=pairs
    groups: {{g0: [0], g1: [1]}}
    arrive_within_s: 3600
"""
"""Rank 0 is a group of its own: nobody but the daemon is waited for."""


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


@contextlib.asynccontextmanager
async def asking(folder: Path, url: str) -> AsyncIterator[tuple[Rank, Transfers]]:
    """Rank 0 of a job whose daemon, agents and rack are processes, as users have them; and a client of its agent with
    the key of the job, which asks no plane.
    """
    program, told, testbed = (folder / name for name in ("rank.py", "told.json", "rack.yaml"))
    program.write_text(PROGRAM)
    fields = {"python": sys.executable, "program": program, "told": told, "user": getpass.getuser()}
    testbed.write_text(RACK.format(name=NAME, **fields))
    lab = Lab(folder)
    async with lab.rack(testbed), lab.daemon(mqtt=url, testbed=testbed) as daemon:
        await daemon.until(lambda status: all_aligned(status) and all(one.up for one in status.switches))
        with daemon.client() as hwd:
            job = await asyncio.to_thread(lambda: hwd.start_job("asks"))
        async with asyncio.timeout(UP_WITHIN_S):
            while True:
                if told.exists():
                    break
                await asyncio.sleep(POLL_S)
        found = json.loads(told.read_text())
        try:
            with (
                await asyncio.to_thread(lambda: Rank.from_environment(found)) as rank,
                Transfers(found[SOCKET_VARIABLE], key=found[KEY_VARIABLE]) as transfers,
            ):
                yield rank, transfers
        finally:
            with daemon.client() as hwd:
                await asyncio.to_thread(lambda: hwd.stop_job(job.id))


@contextlib.contextmanager
def bare_socket() -> Iterator[Callable[[], Awaitable[float]]]:
    """The bytes of an ask and its answer there and back over a Unix socket, to a thread that waits for them."""
    asked, answered = payloads()
    near, far = socket.socketpair()

    def answer() -> None:
        while far.recv(65536):
            far.sendall(answered)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()

    async def ask() -> float:
        began_s = time.perf_counter()
        near.sendall(asked)
        near.recv(65536)
        return time.perf_counter() - began_s

    with far:
        with near:
            yield ask
        thread.join()


async def measure_asks(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    rounds = 40 if quick else 2000
    progress.say(f"operations: {rounds} asks of a rank")
    async with contextlib.AsyncExitStack() as stack:
        url = f"mqtt://127.0.0.1:{await stack.enter_async_context(mosquitto(folder))}"
        rank, transfers = await stack.enter_async_context(asking(folder, url))
        bare_ask = await stack.enter_async_context(bare_request(url))
        bare_line = stack.enter_context(bare_socket())

        async def ours() -> float:
            began_s = time.perf_counter()
            with rank.operation("g0", "barrier", within_s=5.0):
                took_s = time.perf_counter() - began_s
            await asyncio.sleep(2 / ASKS_PER_S)  # the daemon takes no more of one host
            return took_s

        async def claim() -> float:
            began_s = time.perf_counter()
            with transfers.transfer(["eth0"], within_s=5.0):
                took_s = time.perf_counter() - began_s
            await asyncio.sleep(2 / ASKS_PER_S)
            return took_s

        mine, claimed, asked, line = await alternate(rounds, ours, claim, bare_ask, bare_line)
    floor = [one + other for one, other in zip(asked, line, strict=True)]
    factor, over_claim = ratios(mine, floor), ratios(mine, claimed)
    our, ledger, both, wire = (Summary.of([one * 1e6 for one in times]) for times in (mine, claimed, floor, line))
    detail = {"ours": our, "claim": ledger, "bare ask and socket": both, "socket": wire}
    quartiles = f"quartiles {factor.p25:.2f}-{factor.p75:.2f}; {our.median:.0f} us (p99 {our.p99:.0f})"
    return [
        Bar(
            name="an ask of a rank until it may go, over a bare ask and a bare socket, Mosquitto",
            value=factor.median,
            limit=ASK_LIMIT,
            unit="x",
            spread=f"{quartiles} over {both.median:.0f} us, of which the socket {wire.median:.0f}",
            n=rounds,
            detail={name: one.to_data() for name, one in detail.items()},
        ),
        Bar(
            name="an ask of a rank until it may go, over a claim of the same agent that asks no plane, Mosquitto",
            value=over_claim.median,
            limit=None,
            unit="x",
            spread=f"quartiles {over_claim.p25:.2f}-{over_claim.p75:.2f}; {our.median:.0f} over {ledger.median:.0f} us",
            n=rounds,
        ),
    ]


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    return [
        *await measure_shim(folder, quick=quick),
        *await measure_asks(folder, progress, quick=quick),
    ]


async def measure_shim(folder: Path, *, quick: bool) -> list[Bar]:
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
