"""A whole lab of real processes: twin rack with its agents, daemon, broker; what tests do to them and see of them."""

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest

from hwd.records.records import Records
from hwd_drivers.core.documents import Document
from hwd_drivers.core.offload import InlineOffload

from .job_rack import install_planes

T = TypeVar("T")
Data = dict[str, Any]

WITHIN_S = 30.0
"""For anything that is waited for; a loaded machine with two cores takes a tenth of it."""
POLL_S = 0.05
NO_TLS = False
"""HTTP without TLS: a client that reads all certificates first takes 20 ms for it, and one is made for each look."""
SIZE = 8
LOG_SHOWN_CHARS = 4000

NAME = "lab"
TESTBED = """
testbed: lab
switches:
  ocs1: {{driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {{timing: {switch}, seed: 7}}}}
hosts:
  h0:
    twin: {{kernel: true, timing: {nic}, seed: 1, clock: {{offset_s: 5, drift_ppm: 50}}}}
    nics:
      eth0: {{rdma: mlx5_0, rail: 0, ip: 10.1.0.1/32, module: 100g-lr4}}
      eth1: {{rdma: mlx5_1, rail: 0, ip: 10.1.0.2/32, module: 100g-lr4}}
  h1:
    twin: {{kernel: true, timing: {nic}, seed: 2, clock: {{offset_s: -3, drift_ppm: -40}}}}
    nics:
      eth0: {{rdma: mlx5_0, rail: 0, ip: 10.1.1.1/32, module: 100g-lr4}}
      eth1: {{rdma: mlx5_1, rail: 0, ip: 10.1.1.2/32, module: 100g-lr4}}
fibres:
  - h0.eth0 <-> ocs1.1
  - h0.eth1 <-> ocs1.2
  - h1.eth0 <-> ocs1.3
  - h1.eth1 <-> ocs1.4
"""
STRAIGHT = frozenset({"1A-3B", "3A-1B", "2A-4B", "4A-2B"})
CROSSED = frozenset({"1A-4B", "4A-1B", "2A-3B", "3A-2B"})
"""Both ways to join the four ports in two links between the hosts."""
DARK: frozenset[str] = frozenset()
PORTS = ("h0.eth0", "h0.eth1", "h1.eth0", "h1.eth1")
PLAYBOOK = f"""
playbook: to-and-fro
shows: both ways to join the ports, in turns
parameters: {{times: 1, within_s: 20.0}}
steps:
  - lease: {{ports: all, for_s: 300}}
  - repeat: {{times: "{{{{ times }}}}"}}
    steps:
      - apply: {{pairs: "ocs1:{",".join(sorted(STRAIGHT))}"}}
      - wait: {{for: ready, within_s: "{{{{ within_s }}}}"}}
      - apply: {{pairs: "ocs1:{",".join(sorted(CROSSED))}"}}
      - wait: {{for: ready, within_s: "{{{{ within_s }}}}"}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a command of `hwd` ended with."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Program:
    """One process, and what it says."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self.log = log

    @property
    def pid(self) -> int:
        return self.process.pid

    async def end(self, number: signal.Signals) -> int:
        """Send it a signal, and wait; its exit status."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        async with asyncio.timeout(WITHIN_S):
            return await self.process.wait()


class Lab:
    """Everything is kept in `folder`, whose path is short, since those of Unix sockets must be."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.testbed = folder / "testbed.yaml"
        self.playbook = folder / "playbook.yaml"
        self.data = folder / "data"
        self.programs: list[Program] = []
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("HWD_")},
            "HWD_RUN_DIR": str(folder / "run"),
        }
        self._calls: list[asyncio.Task[Said]] = []

    # --- processes

    async def up(
        self, *rack: str, nic: str = "ideal", switch: str = "polatis-opus", mqtt: str = "embedded", text: str = ""
    ) -> Program:
        """Start rack and daemon, wait until all hosts are aligned, and return the daemon.

        `rack`: options of `hwd twin up`. `text`: another testbed, which is also named `lab`.
        """
        self.testbed.write_text(text or TESTBED.format(nic=nic, switch=switch))
        self.playbook.write_text(PLAYBOOK)
        await self.hwd_process("rack", "twin", "up", str(self.testbed), *rack)
        daemon = await self.serve(mqtt=mqtt)
        await self.settled()
        return daemon

    async def serve(self, *, mqtt: str = "embedded", http: str = "127.0.0.1:0") -> Program:
        where = ("--data", str(self.data), "--http", http, "--mqtt", mqtt)
        return await self.hwd_process("daemon", "serve", str(self.testbed), "--no-twin", *where)

    async def settled(self, *, within_s: float = WITHIN_S) -> None:
        """Wait until the switch and both agents are up, the clocks aligned, and nothing is under way."""
        await self.until(
            "the switch and both hosts are up and aligned",
            lambda now: (
                all(switch["up"] for switch in now["switches"])
                and all(host["up"] and host["clock"] for host in now["hosts"])
                and not now["runs"]
            ),
            within_s,
        )

    async def hwd_process(self, name: str, *arguments: str) -> Program:
        return await self.start(name, sys.executable, "-m", "hwd.cli", *arguments)

    async def start(self, name: str, *command: str) -> Program:
        log = self.folder / f"{name}.log"
        with log.open("ab") as words:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stdout=words, stderr=words, env=self.environment
            )
        self.programs.append(Program(process, log))
        return self.programs[-1]

    async def hwd(self, *arguments: str) -> Said:
        """One command of the operator, to its end."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "hwd.cli",
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self.environment,
        )
        try:
            async with asyncio.timeout(2 * WITHIN_S):
                out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()
        assert process.returncode is not None
        return Said(status=process.returncode, out=out.decode(), err=err.decode())

    async def ok(self, *arguments: str) -> Said:
        """One that succeeds."""
        said = await self.hwd(*arguments)
        assert said.status == 0, said
        return said

    def run(self, *, times: int = 1, within_s: float = 20.0) -> "asyncio.Task[Said]":
        """The playbook, as `hwd run` does it; the task ends with that command."""
        defined = ("-D", f"times={times}", "-D", f"within_s={within_s}")
        return self.go("run", str(self.playbook), *defined, "--json")

    def go(self, *arguments: str) -> "asyncio.Task[Said]":
        self._calls.append(asyncio.create_task(self.hwd(*arguments), name=f"hwd {arguments[0]}"))
        return self._calls[-1]

    async def leave(self) -> None:
        """End what was started here."""
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        for program in reversed(self.programs):
            if program.process.returncode is None:
                program.process.terminate()
                try:
                    async with asyncio.timeout(10.0):
                        await program.process.wait()
                except TimeoutError:
                    program.process.kill()
                    await program.process.wait()

    async def close(self) -> None:
        await self.leave()
        shutil.rmtree(self.folder)

    # --- what is seen from outside

    async def get(self, path: str) -> Any:
        """An answer of the daemon's HTTP API; None while nobody answers."""
        place = self.said("daemon")
        if place is None:
            return None
        try:
            by = {"Authorization": f"Bearer {Path(place['token_file']).read_text().strip()}"}
            async with httpx2.AsyncClient(base_url=place["http"], headers=by, timeout=5.0, verify=NO_TLS) as client:
                answer = await client.get(path)
        except httpx2.TransportError:
            return None
        return answer.json() if "json" in answer.headers["content-type"] else answer.text

    async def until(self, what: str, holds: Callable[[Data], object], within_s: float = WITHIN_S) -> Data:
        """Wait until what the daemon tells in its status is so."""

        async def look() -> Data | None:
            now: Data | None = await self.get("/api/v1/status")
            return now if now is not None and holds(now) else None

        return await self.found(what, look, within_s)

    async def found(self, what: str, look: Callable[[], Awaitable[T | None]], within_s: float = WITHIN_S) -> T:
        """Wait until `look` finds something."""
        last: Any = None
        try:
            async with asyncio.timeout(within_s):
                while (seen := await look()) is None:  # noqa: ASYNC110 - other processes: nothing here tells of them
                    await asyncio.sleep(POLL_S)
                return seen
        except TimeoutError:
            last = await self.get("/api/v1/status")
        raise AssertionError(f"not within {within_s:g} s: {what}\nstatus: {json.dumps(last)}\n{self.words()}")

    async def under_way(self, state: str, *, done: int = 0) -> Data:
        """Wait until the run's reconfiguration is in `state`, with `done` steps behind it."""
        return await self.until(
            f"a reconfiguration is {state} after {done} steps",
            lambda now: (
                [run for run in now["runs"] if run["done"] >= done]
                and [one for one in now["reconfigurations"] if one["state"] == state]
            ),
        )

    async def on_its_way(self, *, done: int) -> Data:
        """Wait until the run has so many steps behind it."""
        return await self.until(
            f"{done} steps are done", lambda now: [one for one in now["runs"] if one["done"] >= done]
        )

    async def waited_for(self) -> Data:
        """Wait until links are waited for."""
        return await self.until(
            "links are waited for", lambda now: [one for one in now["reconfigurations"] if one["state"] == "waiting"]
        )

    def said(self, who: str) -> Data | None:
        """What `daemon` or `rack` says of itself."""
        try:
            said: Data = json.loads((self.folder / "run" / NAME / f"{who}.json").read_text())
        except FileNotFoundError:
            return None
        return said

    @property
    def rack(self) -> Data:
        said = self.said("rack")
        assert said is not None, self.words()
        return said

    async def light(self) -> frozenset[str]:
        """The crossconnects that the switch tells a client who knows nothing of hwd."""
        pairs = re.findall(rb'"(\d+),(\d+)"', await self._type(b"RTRV-PATCH:::2:;\n"))
        return frozenset(f"{int(one)}A-{int(other) - SIZE}B" for one, other in pairs)

    async def patch(self, crossconnects: frozenset[str]) -> None:
        """Move the light behind the daemon's back, as somebody at the switch's own terminal."""
        pairs = [re.fullmatch(r"(\d+)A-(\d+)B", one) for one in sorted(crossconnects)]
        ins = "&".join(pair[1] for pair in pairs if pair)
        outs = "&".join(str(int(pair[2]) + SIZE) for pair in pairs if pair)
        await self._type(f"ENT-PATCH::{ins},{outs}:2:;\n".encode())

    async def move(self, crossconnects: frozenset[str]) -> None:
        """Behind the daemon's back, until all carriers have followed: they fall and rise, the first time they rise."""
        before = self.carrier_changes()
        await self.patch(crossconnects)

        async def moved() -> bool | None:
            now = self.carrier_changes()
            return all(now.get(port, 0) >= (before[port] + 2 if port in before else 1) for port in PORTS) or None

        await self.found("all carriers followed", moved)

    async def _type(self, command: bytes) -> bytes:
        """The answer of the switch to a command with the CTAG 2, over a plain socket."""
        host, _, port = self.rack["addresses"]["ocs1"].rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            async with asyncio.timeout(5.0):
                writer.write(b"ACT-USER::other:1::secret;\n")
                await reader.readuntil(b"M  1 COMPLD\r\n;")
                writer.write(command)
                return (await reader.readuntil(b"M  2 COMPLD\r\n")) + await reader.readuntil(b";")
        finally:
            writer.close()
            await writer.wait_closed()

    async def lit(self, *wanted: frozenset[str]) -> frozenset[str]:
        """Wait until the light is one of these."""

        async def look() -> frozenset[str] | None:
            light = await self.light()
            return light if light in wanted else None

        return await self.found(f"light is one of {[sorted(one) for one in wanted]}", look)

    async def fault(self, fault: str, **more: object) -> None:
        """Tell the rack what goes wrong from now on, with its switch where no `port` is named."""
        what = {"fault": fault, **({} if "port" in more else {"switch": "ocs1"}), **more}
        reader, writer = await asyncio.open_unix_connection(self.rack["control"])
        try:
            writer.write(json.dumps(what).encode() + b"\n")
            async with asyncio.timeout(5.0):
                assert json.loads(await reader.readline()) == {"done": True}
        finally:
            writer.close()
            await writer.wait_closed()

    def carrier_changes(self) -> dict[str, int]:
        """By port, what the twins really did."""
        lines = map(json.loads, Path(self.rack["truth"]).read_text().splitlines())
        return dict(Counter(truth["port"] for truth in lines if truth["what"] == "carrier"))

    async def documents(self, *kinds: str, run: str | None = None) -> list[Data]:
        """The data of those that are in the records, oldest first."""
        return [document.fact.to_data() for document in await self._documents(kinds, run)]

    async def recorded(self, kind: str, *, after: int = 0) -> Data:
        """The data of the one document of a kind behind so many others of it, when it is there."""

        async def look() -> list[Data] | None:
            return (await self.documents(kind))[after:] or None

        (document,) = await self.found(f"{kind} is recorded", look)
        return document

    async def outcome(self) -> Data:
        """The newest run, as it is recorded."""
        runs: list[Data] = await self.get("/api/v1/runs")
        return runs[0]

    async def no_gap(self, *hosts: str) -> set[tuple[str, str]]:
        """Each life of an agent has all its events recorded, once and in their order; returns hosts and boots."""
        numbers: dict[tuple[str, str], list[int]] = {}
        for event in await self.documents("host.event"):
            if event["host"] in hosts or not hosts:
                numbers.setdefault((event["host"], event["boot"]), []).append(event["seq"])
        for boot, seqs in numbers.items():
            assert seqs == list(range(1, len(seqs) + 1)), f"events of {boot}: {seqs}"
        return {*numbers}

    async def nothing_lost(self, *, within_s: float = WITHIN_S) -> None:
        """Wait until every carrier change is recorded, each event exactly once.

        A kernel that is busy may tell of two changes at once, and counts them: no more is promised.
        """

        async def look() -> bool | None:
            return await self.carrier_recorded() == self.carrier_changes() or None

        try:
            await self.found("all carrier changes are recorded", look, within_s)
        except AssertionError as error:
            told = await self.carrier_recorded()
            raise AssertionError(f"recorded {told}, true {self.carrier_changes()}\n{error}") from None
        await self.no_gap()
        assert {one["why"] for one in await self.documents("host.lost")} <= {"flaps that nobody saw one by one"}

    async def carrier_recorded(self) -> dict[str, int]:
        """By port, how many changes of its carrier the records have, seen or counted."""
        changes: Counter[str] = Counter()
        carrier: dict[str, bool] = {}
        for event in await self.documents("host.event"):
            if event["type"] == "carrier":
                port, now = f"{event['host']}.{event['port'].rpartition('.')[2]}", event["data"]["carrier"]
                changes[port] += event["data"]["unseen"] + (now != carrier.get(port, False))
                carrier[port] = now
        return dict(changes)

    async def _documents(self, kinds: tuple[str, ...], run: str | None) -> list[Document]:
        records = Records(f"sqlite:///{self.data / 'records.db'}", InlineOffload())
        await records.open()
        try:
            return [stored.document for stored in await records.documents(run=run, kinds=kinds)]
        finally:
            records.close()

    def words(self) -> str:
        """The ends of all logs, for a failed test."""
        logs = [*self.folder.glob("*.log"), *(self.folder / "run" / NAME).glob("*.log")]
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-LOG_SHOWN_CHARS:]}" for log in logs)


class Mosquitto:
    """A broker of its own process, which comes back where it was."""

    def __init__(self, lab: Lab, program: str) -> None:
        self._lab = lab
        self._program = program
        self._running: Program | None = None
        self.port = 0
        self.rules = "allow_anonymous true\n"

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """On the port that it had; the first time on a free one."""
        for _ in range(5):
            if not self.port:
                with socket.create_server(("127.0.0.1", 0)) as free:
                    port = free.getsockname()[1]
            else:
                port = self.port
            config = self._lab.folder / "mosquitto.conf"
            config.write_text(f"listener {port} 127.0.0.1\nuser root\nset_tcp_nodelay true\n{self.rules}")
            self._running = await self._lab.start("mosquitto", self._program, "-c", str(config))
            if await self._listens(port):
                self.port = port
                return
        raise AssertionError(f"mosquitto does not start\n{self._lab.words()}")

    async def kill(self) -> None:
        assert self._running is not None
        await self._running.end(signal.SIGKILL)

    async def _listens(self, port: int) -> bool:
        assert self._running is not None
        async with asyncio.timeout(WITHIN_S):
            while self._running.process.returncode is None:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except ConnectionRefusedError:
                    await asyncio.sleep(POLL_S)
                    continue
                writer.close()
                await writer.wait_closed()
                return True
        return False  # somebody took the port in between


class SmallDisk:
    """A tmpfs, which can be filled up and made free again."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self) -> None:
        with (self.path / "ballast").open("ab", buffering=0) as ballast:
            for size in (1 << 16, 1 << 12, 1):
                try:
                    while True:
                        ballast.write(b"x" * size)
                except OSError:
                    continue

    def free(self) -> None:
        (self.path / "ballast").unlink()


@contextmanager
def small_disk(path: Path, size_bytes: int) -> Iterator[SmallDisk]:
    """Mounted at a folder."""
    if os.geteuid() != 0:
        pytest.skip("needs root: a tmpfs is mounted")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes},mode=700", "hwd-test", path], check=True)
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


@pytest.fixture(scope="session")
def planes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """For the PYTHONPATH of daemons: where the rotor is installed, and planes of tests."""
    folder = tmp_path_factory.mktemp("planes")
    install_planes(folder)
    return str(folder)


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    made = Lab(Path(tempfile.mkdtemp(prefix="hwd-")))
    yield made
    await made.close()


@pytest.fixture(scope="module")
def shared_folder(request: pytest.FixtureRequest) -> Iterator[Path]:
    """The folder of a rack and a daemon that the tests of a file share; their end is checked after the last test.

    The file's `NIC` is the model of its NICs; its `rack`, called with the folder, the text of another testbed.
    """
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        made = Lab(Path(tempfile.mkdtemp(prefix="hwd-")))
        text = ""
        if hasattr(request.module, "rack"):
            made.environment["PYTHONPATH"] = request.getfixturevalue("planes")
            text = request.module.rack(made.folder)
        try:
            daemon = runner.run(made.up(nic=getattr(request.module, "NIC", "ideal"), text=text))
            yield made.folder
            assert runner.run(daemon.end(signal.SIGTERM)) == 0
        finally:
            runner.run(made.close())


@pytest.fixture
async def standing(shared_folder: Path) -> AsyncIterator[Lab]:
    """A running lab, for a test that leaves it in working order.

    Records and light are as the earlier tests of the file left them.
    """
    lab = Lab(shared_folder)
    await lab.fault("clear")
    await lab.settled()
    yield lab
    await lab.leave()


@pytest.fixture
async def mosquitto(lab: Lab) -> Mosquitto:
    program = shutil.which("mosquitto", path="/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin")
    if program is None:
        pytest.skip("needs mosquitto: apt-get install mosquitto")
    broker = Mosquitto(lab, program)
    await broker.start()
    return broker


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Show what the processes said where a test fails, before its fixtures take the logs away."""
    report = yield
    known = getattr(item, "funcargs", {})
    made = known.get("lab", known.get("standing"))
    if report.when == "call" and report.failed and isinstance(made, Lab) and made.folder.exists():
        report.sections.append(("what the processes said", made.words()))
    return report
