"""Programs on hosts through a real daemon: the allow-list, HTTP and its client, what is told, what ends them."""

import asyncio
import getpass
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import pytest

from hwd.client.async_client import AsyncClient
from hwd.config.run_files.places import RackPlace
from hwd.daemon.daemon import Daemon
from hwd.daemon.installed_drivers import load
from hwd.daemon.seams import Machine, Process, RackAccess, Storage
from hwd.daemon.switch_opener import opener
from hwd.fabric.fabric import Fabric
from hwd.fabric.in_use import InUse
from hwd.jobs.programs import MOST_ON_HOST, Programs
from hwd.model.fault import Fault
from hwd.model.program import (
    HostProgramEnded,
    HostProgramStarted,
    ProgramEnd,
    ProgramNews,
    ProgramOutput,
    ProgramStarted,
    RunningProgram,
)
from hwd.model.testbed import Host
from hwd.playbook.twin_faults import NoRackError
from hwd.records.records import Records
from hwd.rollout.processes.host_processes import HostProcesses
from hwd.sim.planes import SimPlanes
from hwd.twin.kernel import Keeper
from hwd.web.app import make_app
from hwd.web.server import HttpServer, listen
from hwd_agents.bus.memory import MemoryBroker, MemoryBus
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.disk import MemoryDisk
from hwd_drivers.core.documents import Fact, Json
from hwd_drivers.core.errors import ConfigError, FailedError, HwdError, LinkError, RefusedError
from hwd_drivers.core.ids import Draws, RandomIds
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet

pytestmark = pytest.mark.kernel

WITHIN_S = 30.0
TOKEN = "the-token"
F = TypeVar("F", bound=Fact)

TESTBED = f"""
testbed: two
hosts:
  h0: {{twin: {{kernel: true, timing: ideal, seed: 1}}, nics: {{eth0: {{ip: 10.1.0.1/32, module: 100g-lr4}}}}}}
  h1: {{twin: {{kernel: false, timing: ideal, seed: 2}}, nics: {{eth0: {{ip: 10.1.0.2/32, module: 100g-lr4}}}}}}
  h2: {{nics: {{eth0: {{ip: 10.1.0.3/32, module: 100g-lr4}}}}}}
programs:
  shell: {{command: [/bin/sh, -c], user: {getpass.getuser()}, arguments: true}}
  hello: {{command: [/bin/echo, hello], user: {getpass.getuser()}, hosts: [h0]}}
  missing: {{command: [/no/such/program], user: {getpass.getuser()}}}
fibres: []
"""


class Desk:
    """A daemon, and a client of its API."""

    def __init__(self, daemon: Daemon, hwd: AsyncClient, server: HttpServer, running: "asyncio.Task[None]") -> None:
        self.daemon = daemon
        self.hwd = hwd
        self._server = server
        self._running = running

    async def said(self, host: str, *words: str) -> list[ProgramNews]:
        async with asyncio.timeout(WITHIN_S), aclosing(self.hwd.run_program(host, *words, by="ada@lab")) as news:
            return [one async for one in news]

    async def told(self, type: type[F]) -> F:
        """The first fact of a type."""
        async with asyncio.timeout(WITHIN_S):
            async for _, document in self.daemon.hub.follow(0):
                if isinstance(document.fact, type):
                    return document.fact
        raise AssertionError("the hub ended")

    async def stop(self) -> None:
        """As SIGTERM does; safe to call twice."""
        self._running.cancel()
        await asyncio.wait((self._running,))
        await self._server.stop()


async def set_fault(fault: Fault) -> None:
    raise NoRackError(f"fault: {fault}: the twin rack is not up")


@pytest.fixture
async def rack(tmp_path: Path) -> AsyncIterator[dict[str, RackPlace]]:
    """What the rack of a testbed says of itself: with the network of h0. Without the entry it is not up."""
    async with Keeper() as keeper:
        await keeper.start(["h0"], tmp_path / "run")
        hosts: dict[str, dict[str, Json]] = {
            "h0": {"kernel": True, "keeper": str(keeper.path)},
            "h1": {"kernel": False, "keeper": None},
        }
        yield {"two": RackPlace(testbed="two", pid=os.getpid(), hosts=hosts)}


@pytest.fixture
async def desk(tmp_path: Path, rack: dict[str, RackPlace]) -> AsyncIterator[Desk]:
    file = tmp_path / "two.yaml"
    file.write_text(TESTBED)
    clock, dialer = SystemClock(), MemoryDialer(MemoryNet())
    daemon = Daemon(
        testbed=load(file).require(),
        testbed_text=TESTBED,
        machine=Machine(
            clock=clock,
            ids=RandomIds(),
            draws=Draws(1),
            offload=InlineOffload(),
            plane=SimPlanes(),
        ),
        storage=Storage(records=Records("sqlite://", InlineOffload()), journal=MemoryDisk(), job_events=MemoryDisk()),
        rack=RackAccess(
            bus=MemoryBus(MemoryBroker(), "daemon", clock),
            open_switch=opener(dialer=dialer, clock=clock, twin_address=lambda name: None, environment={}),
            set_fault=set_fault,
            processes=HostProcesses(lambda: rack.get("two"), clock, InlineOffload()),
        ),
        process=Process(version="test", data_dir=str(tmp_path), pid=1),
    )
    await daemon.open()
    app = make_app(
        daemon.service,
        version="test",
        tokens=frozenset({TOKEN}),
        session="a-session",
    )
    server = HttpServer(app, listen("127.0.0.1", 0), before_stop=daemon.events.stop)
    running = asyncio.create_task(daemon.run())
    url = await server.start()
    async with AsyncClient(url, token=TOKEN) as hwd:
        made = Desk(daemon, hwd, server, running)
        try:
            yield made
        finally:
            await made.stop()


async def test_program_of_the_testbed_file_runs_and_is_told_of(desk: Desk) -> None:
    started, *output, end = await desk.said("h0", "shell", "echo out; echo err >&2; exit 3")
    assert isinstance(started, ProgramStarted)
    assert {(one.stream, one.data) for one in output if isinstance(one, ProgramOutput)} == {
        ("out", b"out\n"),
        ("err", b"err\n"),
    }
    assert end == ProgramEnd(status=3)
    begin, last = await desk.told(HostProgramStarted), await desk.told(HostProgramEnded)
    assert (begin.program, begin.pid, begin.name, begin.by) == (
        started.id,
        started.pid,
        "shell",
        "ada@lab (unverified)",
    )
    assert begin.command == ["/bin/sh", "-c", "echo out; echo err >&2; exit 3"]
    assert (last.status, last.signal, last.why) == (3, "", "")
    assert desk.daemon.service.programs.programs() == []


async def test_running_program_is_in_the_status_and_takes_signals(desk: Desk) -> None:
    script = "trap 'exit 5' USR1; echo ready; while :; do sleep 0.01; done"
    async with asyncio.timeout(WITHIN_S), aclosing(desk.hwd.run_program("h0", "shell", script)) as news:
        started = await anext(news)
        assert isinstance(started, ProgramStarted)
        assert isinstance(await anext(news), ProgramOutput)
        (status,) = (await desk.hwd.status()).programs
        assert (await desk.hwd.signal_program(started.id, "USR1")).pid == started.pid
        assert (status.id, status.host, status.pid) == (started.id, "h0", started.pid)
        *_, end = [one async for one in news]
    assert end == ProgramEnd(status=5)
    with pytest.raises(ConfigError, match=f"program {started.id}: it has ended. "):
        await desk.hwd.signal_program(started.id, "USR1")
    with pytest.raises(ConfigError, match=r"program nosuch: none of this id is known\. "):
        await desk.hwd.signal_program("nosuch", "USR1")


REFUSALS: list[tuple[tuple[str, ...], type[HwdError], str]] = [
    (("h0", "rm"), RefusedError, r"h0: rm: not among the programs of the testbed file for h0: shell, hello"),
    (("h0", "/bin/sh"), RefusedError, r"h0: /bin/sh: not among .*programs: \{sh: \{command"),
    (("h1", "hello"), RefusedError, r"h1: hello: not among the programs of the testbed file for h1: shell"),
    (("h0", "hello", "-n"), RefusedError, r"h0: hello: it takes no arguments"),
    (("h9", "hello"), ConfigError, r"'h9' is no host of testbed two"),
    (("h1", "shell", "true"), RefusedError, r"h1: is a twin without a kernel"),
    (("h2", "shell", "true"), RefusedError, r"h2: the testbed file does not say how to reach it"),
    (("h0", "missing"), FailedError, r"h0: cannot start /no/such/program: No such file or directory"),
]


async def test_what_cannot_run_is_refused_with_the_reason(desk: Desk, rack: dict[str, RackPlace]) -> None:
    for words, kind, why in REFUSALS:
        with pytest.raises(kind, match=why):
            await desk.said(*words)
        assert desk.daemon.service.programs.programs() == [], words
    rack.clear()
    with pytest.raises(LinkError, match=r"h0: its twin rack is not up\. Start it with `hwd twin up TESTBED`"):
        await desk.said("h0", "hello")


async def test_program_ends_when_its_caller_goes_away(desk: Desk) -> None:
    async with asyncio.timeout(WITHIN_S), aclosing(desk.hwd.run_program("h0", "shell", "sleep 1000")) as news:
        await anext(news)
    ended = await desk.told(HostProgramEnded)
    assert (ended.status, ended.signal) == (None, "")
    assert ended.why == "nobody waited for its end any more, so it was ended"
    assert not Path(f"/proc/{(await desk.told(HostProgramStarted)).pid}").exists()


class Unreachable:
    """Hosts whose logins never end."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def start(
        self,
        host: Host,
        command: Sequence[str],
        *,
        user: str,
        within_s: float,
        environment: Mapping[str, str] = MappingProxyType({}),
        keep: str | None = None,
    ) -> RunningProgram:
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def attach(self, host: Host, keep: str, *, user: str, taken: int | None = None) -> RunningProgram:
        raise AssertionError


@pytest.fixture
def unreachable() -> Unreachable:
    return Unreachable()


@pytest.fixture
def programs(tmp_path: Path, unreachable: Unreachable) -> Programs:
    file = tmp_path / "two.yaml"
    file.write_text(TESTBED)
    in_use = InUse(Fabric(load(file).require()))
    return Programs(in_use, unreachable, clock=SystemClock(), ids=RandomIds(), sink=lambda document: None)


async def test_program_that_is_starting_when_the_daemon_ends_is_refused_and_none_starts_after_it(
    programs: Programs, unreachable: Unreachable
) -> None:
    starting = asyncio.create_task(programs.start("h2", ["shell", "true"], None))
    async with asyncio.timeout(WITHIN_S):
        await unreachable.asked.wait()
        await programs.close()
        for start in (starting, programs.start("h2", ["shell", "true"], None)):
            with pytest.raises(RefusedError, match="h2: shell: the daemon is ending"):
                await start


async def test_caller_that_is_cancelled_while_a_program_starts_stays_cancelled(
    programs: Programs, unreachable: Unreachable
) -> None:
    starting = asyncio.create_task(programs.start("h2", ["shell", "true"], None))
    async with asyncio.timeout(WITHIN_S):
        await unreachable.asked.wait()
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        await programs.close()


async def test_more_programs_than_a_host_may_have_are_refused_in_words_and_other_hosts_have_theirs(
    programs: Programs,
) -> None:
    starting = [asyncio.create_task(programs.start("h2", ["shell", "true"], None)) for _ in range(MOST_ON_HOST)]
    await asyncio.sleep(0)
    why = f"h2: shell: {MOST_ON_HOST} programs run on h2 already, the most on one host at a time. End one first"
    with pytest.raises(RefusedError, match=why):
        await programs.start("h2", ["shell", "true"], None)
    other = asyncio.create_task(programs.start("h0", ["shell", "true"], None))
    await asyncio.sleep(0)
    assert not other.done()
    await programs.close()
    assert all(isinstance(one, RefusedError) for one in await asyncio.gather(*starting, other, return_exceptions=True))


async def test_daemon_that_stops_ends_its_programs(desk: Desk) -> None:
    async with asyncio.timeout(WITHIN_S), aclosing(desk.hwd.run_program("h0", "shell", "sleep 1000")) as news:
        started = await anext(news)
        assert isinstance(started, ProgramStarted)
        await desk.stop()
        assert not Path(f"/proc/{started.pid}").exists()
