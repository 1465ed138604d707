"""`python -m docs.generate.ways` counts the calls of our own functions along three ways, in virtual time.

The ways: one crossconnect, from `hwd apply` to the bytes of the switch and back to the report; one flap of a carrier,
from the kernel's report to the rows in the database; and one operation of two ranks whose control plane brings the
light to a target of its prepared set first, from the socket of the ranks to its end in the log of the job. Twins and
the simulation are not counted: neither their modules, nor what runs in the node of the twin rack, which shares codecs
with the drivers; nor bodies of modules and of classes, which run once, at an import. A world is played twice from one
seed, with the action and without it: the difference is what the action causes. The command line is counted too: its
requests are answered by such worlds.
"""

import asyncio
import dis
import inspect
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import StringIO
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import CodeType, FrameType

import httpx2
from typing_extensions import override

from docs.generate.pages import table
from hwd.cli.run_command import run
from hwd.daemon.installed_drivers import load
from hwd.model.bodies import JobBody
from hwd.model.fault import parse_fault
from hwd.sim.job_rank import JobRank
from hwd.sim.world import DAEMON, RACK, World
from hwd.web.app import make_app
from hwd_drivers.twins.virtual_time import run_virtual

ROOT = Path(__file__).parents[2]
TESTBED = ROOT / "examples/two-hosts.yaml"
CROSSCONNECT = "ocs1:1A-3B"
"""One crossconnect that makes no link: no host takes part."""
FLAP = {"fault": "flap", "port": "h0.eth0", "times": 1, "down_s": 1.0, "up_s": 1.0}
LINK = "ocs1:1A-3B,3A-1B"
JOB = "jobs:\n  go: {command: [/bin/rank], user: lab, hosts: [h0, h1], plane: static topology=pairs}\n"
SECONDS = 20.0
"""Virtual time in which all that an action causes has happened."""
PACKAGES = {"drivers/hwd_drivers": "hwd_drivers", "agents/hwd_agents": "hwd_agents", "hwd": "hwd"}
NOT_COUNTED = (
    *("hwd_drivers.twins", "hwd.twin", "hwd.sim", "hwd_agents.sources.twin"),
    *("hwd_drivers.transports.memory", "hwd_agents.bus.memory"),
)
READ = "hwd_drivers.devices.supervisor:Supervisor.read"

JSON = {"Content-Type": "application/json"}

Calls = Counter[str]
"""By function: `hwd.reconfigure.applies:Applies.plan`."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request of the command line."""

    method: str
    path: str
    body: bytes


class Trace:
    """Counts the calls of our functions while it is on, in this thread and in those that are started meanwhile."""

    def __init__(self, in_twin: Callable[[], bool] = lambda: False) -> None:
        """`in_twin`: whether what runs now belongs to a twin."""
        self.calls = Calls()
        self._in_twin = in_twin
        self._modules: dict[str, str | None] = {}
        self._starts: dict[CodeType, int] = {}

    @contextmanager
    def on(self) -> Iterator[None]:
        sys.setprofile(self._see)
        threading.setprofile(self._see)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _see(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        if not code.co_flags & inspect.CO_OPTIMIZED:  # the body of a module or of a class
            return
        if code.co_filename not in self._modules:
            self._modules[code.co_filename] = _module(code.co_filename)
        if (module := self._modules[code.co_filename]) is None:
            return
        if code not in self._starts:
            self._starts[code] = min(one.offset for one in dis.get_instructions(code) if one.opname == "RESUME")
        if frame.f_lasti <= self._starts[code] and not self._in_twin():  # else a coroutine or a generator goes on
            self.calls[f"{module}:{code.co_qualname}"] += 1


def _module(file: str) -> str | None:
    """Its dotted name; None where it is not counted."""
    for folder, package in PACKAGES.items():
        path = Path(file)
        if path.is_relative_to(ROOT / folder):
            name = ".".join((package, *path.relative_to(ROOT / folder).with_suffix("").parts))
            is_twin = name.startswith(NOT_COUNTED) or name.endswith(("twin", "front", "scpi_twin"))
            return None if is_twin else name
    return None


def played(
    act: Callable[[World, httpx2.AsyncClient], Awaitable[None]],
    *,
    link: bool = False,
    rank: Callable[[JobRank], Awaitable[None]] | None = None,
) -> Calls:
    """The calls of a world while `act` runs and for `SECONDS` in all. `link`: a link is up before. `rank`: what each
    rank of a job does, of which all have come before.
    """
    text = TESTBED.read_text(encoding="utf-8").replace("kernel: true, ", "") + (JOB if rank is not None else "")
    with NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        testbed = load(file.name).require()

    async def main() -> Calls:
        joined = asyncio.Semaphore(0)

        async def program(host: str, _: Sequence[str], environment: Mapping[str, str]) -> int:
            assert rank is not None
            own = JobRank(world, host, environment)
            await own.join()
            joined.release()
            await rank(own)
            return 0

        async with World(testbed, text, seed=1, programs={"/bin/rank": program}) as world:
            trace = Trace(lambda: world.nodes.current() == RACK)
            service = await world.settled()
            app = make_app(service, version="ways", tokens=frozenset({"ways"}), session="ways")
            transport = httpx2.ASGITransport(app, client=("127.0.0.1", 1))
            headers = {"Authorization": "Bearer ways"}
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as http:
                if link:
                    await http.post("/api/v1/reconfigurations", json={"what": LINK, "ready_within_s": 15})
                if rank is not None:
                    await world.nodes.run_in_node(DAEMON, service.jobs.start(JobBody(name="go"), None))
                    for _ in testbed.hosts:
                        await joined.acquire()
                began_s = asyncio.get_running_loop().time()
                with trace.on():
                    await act(world, http)
                    await asyncio.sleep(began_s + SECONDS - asyncio.get_running_loop().time())
        return trace.calls

    return run_virtual(main())


async def nothing(_: World, __: httpx2.AsyncClient) -> None:
    pass


def of_flap() -> Calls:
    """What one flap of a carrier causes: it falls and rises, and so does the RDMA port."""

    async def flap(world: World, _: httpx2.AsyncClient) -> None:
        await world.set_fault(parse_fault(FLAP))

    return played(flap, link=True) - played(nothing, link=True)


def of_operation() -> Calls:
    """What one operation of two ranks causes, before which the light moves."""

    def of(*, asks: bool) -> Calls:
        go = asyncio.Event()

        async def rank(own: JobRank) -> None:
            await go.wait()
            await own.collective("world", "all-reduce", seconds=0.1)
            await asyncio.Event().wait()  # the job does not end with it

        async def act(_: World, __: httpx2.AsyncClient) -> None:
            if asks:
                go.set()

        return played(act, rank=rank)

    return of(asks=True) - of(asks=False)


def of_apply() -> tuple[Calls, Calls]:
    """What `hwd apply` causes in the command line, and in the daemon."""
    asked: list[Request] = []
    answers: list[httpx2.Response] = []

    async def ask(_: World, http: httpx2.AsyncClient) -> None:
        answers[:] = [await http.request(one.method, one.path, content=one.body, headers=JSON) for one in asked]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """How far the apply is: nothing is told of it."""
            body = b'{"last": "ways.0", "missed": 0, "documents": []}'
            self.send_response(200)
            self.send_header("Content-Type", JSON["Content-Type"])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            asked.append(Request("POST", self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            played(ask, link=False)
            self.send_response(answers[-1].status_code)
            self.send_header("Content-Type", answers[-1].headers["Content-Type"])
            self.send_header("Content-Length", str(len(answers[-1].content)))
            self.end_headers()
            self.wfile.write(answers[-1].content)

        @override
        def log_message(self, format: str, *args: object) -> None:
            pass

    trace = Trace()
    with HTTPServer(("127.0.0.1", 0), Handler) as server, redirect_stdout(StringIO()) as said:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with trace.on():
            url = f"http://127.0.0.1:{server.server_port}"
            status = run(["apply", CROSSCONNECT, "--no-ready", "--yes", "--url", url])
        server.shutdown()
    if status != 0:
        raise SystemExit(f"hwd apply ended with {status}: {said.getvalue()}")
    return trace.calls, played(ask, link=False) - played(nothing, link=False)


def of_hwd(calls: Calls) -> list[str]:
    """The functions of the package `hwd`, each once, without comprehensions and lambdas."""
    return [one for one in calls if one.startswith("hwd.") and not one.endswith(">")]


def by_package(calls: Calls) -> list[tuple[str, str]]:
    found = Counter[str]()
    for name, count in calls.items():
        found[".".join(name.partition(":")[0].split(".")[:2])] += count
    return [(f"`{name}`", str(count)) for name, count in found.most_common()]


def main() -> None:
    """Print all ways."""
    command_line, daemon = of_apply()
    ways = {
        f"`hwd apply {CROSSCONNECT}`, in the command line": command_line,
        f"`hwd apply {CROSSCONNECT}`, in the daemon and the agents": daemon,
        "a flap of a carrier": of_flap(),
        "an operation of two ranks": of_operation(),
    }
    for name, calls in ways.items():
        reads = f", {calls[READ]} whole reads of the switch" if calls[READ] else ""
        own = f"{len(of_hwd(calls))} of them named functions of hwd"
        sys.stdout.write(f"{name}: {calls.total()} calls of {len(calls)} functions, {own}{reads}\n\n")
        sys.stdout.write(table(("package", "calls"), by_package(calls)) + "\n")
        if "--functions" in sys.argv:
            rows = [(f"`{one}`", str(count)) for one, count in calls.most_common()]
            sys.stdout.write(table(("function", "calls"), rows) + "\n")


if __name__ == "__main__":
    main()
