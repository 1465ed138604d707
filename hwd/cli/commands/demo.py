"""The command `hwd demo`: a twin rack with kernel hosts in real time, the same rack many times in virtual time, and one
report of both.

All processes that it starts end with it. Records and sockets are in a temporary folder; the report is kept.
"""

import asyncio
import contextlib
import json
import os
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from hwd.cli.output import Output
from hwd.cli.recorded_runs import recorded, run_reports
from hwd.client import Client
from hwd.client.run_follower import state_in
from hwd.config.run_files.places import daemon_of, rack_of, records_path
from hwd.config.shipped_file import shipped_file
from hwd.model.run import AcceptedRun
from hwd.model.run_facts import RunStep
from hwd.report import RunReport, stage_table, stage_text
from hwd.report.figures.waterfall import typical, waterfall
from hwd.report.page.html import html
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import FailedError, LinkError
from hwd_drivers.core.offload import ThreadOffload
from hwd_drivers.core.output_file import write_file
from hwd_drivers.core.own_python import own_python

UP_WITHIN_S = 60.0
"""For daemon, twin rack and agents to connect and align their clocks; 4 s on two idle cores, over 25 s on two that five
programs shared.
"""
END_WITHIN_S = 10.0
REAL_REPEATS = 2
VIRTUAL_REPEATS = 14
"""Each measures eight links of two topologies: more than the hundred samples that a p99 needs, but for the first one of
each, whose links were not there before.
"""
BY = ("topology",)
"""Not all together: the NICs are slower in that topology that comes sooner after the other."""
POLL_S = 0.2


def main(*, report: Path, json: bool, clock: Clock, began_ns: int) -> int:
    """Returns the exit status. `began_ns`: when the command began, before the imports of this module."""
    output = Output(json=json)
    with tempfile.TemporaryDirectory(prefix="hwd-demo-") as name:
        folder = Path(name)
        real, place, virtual = asyncio.run(_runs(folder, output))
        measured_ns = clock.monotonic_ns()
        reports = [*_load(folder / "data", real), *_load(folder / "virtual", virtual)]
    first = typical(reports[0].timelines)
    write_file(report, html(reports, by=BY, comparisons=()))  # two repeats have no verdict
    alone = ""
    if first is not None and report.is_file():  # a pipe or a device gets no neighbour
        drawing = report.with_name(f"{report.stem}.svg" if report.suffix != ".svg" else f"{report.stem}-waterfall.svg")
        write_file(drawing, waterfall(first, virtual_time=False))
        alone = f"; its waterfall alone: {drawing.name}"
    rows = stage_table(reports, by=BY)
    output.say()
    output.say(f"hosts: {place}")
    output.block(stage_text(rows).rstrip())
    output.say()
    output.say(f"report: {report.absolute()} (open it in a browser){alone}")
    output.note(_times(began_ns, measured_ns, clock.monotonic_ns()))
    output.data({"report": str(report.absolute()), "hosts": place, "stages": rows})
    return 0 if all(one.run.outcome == "succeeded" for one in reports) else 1


def _times(began_ns: int, measured_ns: int, ended_ns: int) -> str:
    """The time of the whole, as somebody who waits for it has it, and that of its last part."""
    whole_s, report_s = (ended_ns - began_ns) / 1e9, (ended_ns - measured_ns) / 1e9
    return f"demo: {whole_s:.0f} s in all, {report_s:.0f} s of them for the report"


async def _runs(folder: Path, output: Output) -> tuple[str, str, str]:
    """Do both runs: the id of the one in real time, its kind of hosts, the id of the one in virtual time.

    The one in real time mostly waits for twins: the other one is computed meanwhile, at the lowest priority.
    """
    up = asyncio.Event()
    (real, place), virtual = await asyncio.gather(_real(folder, output, up), _virtual(folder, output, up))
    return real, place, virtual


async def _real(folder: Path, output: Output, up: asyncio.Event) -> tuple[str, str]:
    """Run the experiment on the kernel rack; returns the run's id, and the kind of hosts. `up` is set
    when it begins.
    """
    testbed, playbook = shipped_file("examples", "opus-testbed"), shipped_file("playbooks", "reconfiguration-timeline")
    environment = {**os.environ, "HWD_RUN_DIR": str(folder / "run")}
    (folder / "run").mkdir(mode=0o700)
    output.note("demo: starting a switch twin, four hosts with their agents, a broker and the daemon")
    async with (
        _process(folder / "rack.log", environment, "twin", "up", str(testbed)) as rack,
        _process(
            folder / "daemon.log", environment, "serve", str(testbed), "--no-twin",
            "--data", str(folder / "data"), "--http", "127.0.0.1:0",
        ) as daemon,
    ):  # fmt: skip
        hwd = await _up([rack, daemon], environment)
        with hwd:
            started = hwd.start_run(
                text=playbook.read_text(encoding="utf-8"),
                file=str(playbook),
                parameters={"repeats": str(REAL_REPEATS)},
            )
            output.note(f"demo: {REAL_REPEATS * 2} reconfigurations of 8 links in real time")
            up.set()
            threads = ThreadOffload(1)
            try:
                await threads(_follow, hwd, started, output)
            finally:
                threads.close()
            place = rack_of("opus-testbed", environment)
            kernel = place is not None and all(host["kernel"] for host in place.hosts.values())
    return started.run, "real kernel interfaces" if kernel else "simulated: this machine gives no network namespaces"


async def _virtual(folder: Path, output: Output, up: asyncio.Event) -> str:
    """Run the same experiment repeatedly in virtual time, once `up` is set; returns the run's id."""
    testbed, playbook = shipped_file("examples", "opus-testbed"), shipped_file("playbooks", "reconfiguration-timeline")
    (folder / "virtual").mkdir()
    await up.wait()
    output.note(f"demo: {VIRTUAL_REPEATS * 2} reconfigurations in virtual time, meanwhile")
    process = await asyncio.create_subprocess_exec(
        "nice", "-n", "19", *own_python("-m", "hwd.sim"), str(testbed), str(playbook),
        "--records", str(records_path(folder / "virtual")),
        "-D", f"repeats={VIRTUAL_REPEATS}", "--today", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    said: list[str] = []
    try:
        async for line in process.stderr:
            said.append(line.decode(errors="replace").rstrip())
            if said[-1].startswith("{"):
                progress = json.loads(said[-1])
                if progress["done"] % 10 == 0:
                    output.note(f"demo: in virtual time: step {progress['done']} of {progress['total']}")
        run = (await process.stdout.read()).decode().strip()
    finally:  # also where the other run failed
        if process.returncode is None and not process.stdout.at_eof():
            process.kill()
    if await process.wait() != 0:
        raise FailedError(f"demo: the run in virtual time failed: {' / '.join(said[-3:])}")
    return run


def _follow(hwd: Client, started: AcceptedRun, output: Output) -> None:
    run = started.run
    with hwd.events(after=started.after, kinds=["run."]) as events:
        for event in events:
            status = hwd.run_state(run) if event.document is None else state_in(event, run)
            if status is not None and status.state.ended:
                output.note(f"demo: run {status.state}{': ' if status.why else ''}{status.why}")
                return
            match event.document and event.document.fact:
                case RunStep(run=this, state="started") as step if this == run:
                    output.note(f"demo: step {step.step} of {step.total}: {step.what}")


def _load(data: Path, run: str) -> tuple[RunReport, ...]:
    with recorded(None, str(data)) as source:
        return run_reports(source, [run])


@dataclass(frozen=True, slots=True)
class _Process:
    process: asyncio.subprocess.Process
    log: Path

    def check(self) -> None:
        """Raises FailedError with the end of its log when it has ended."""
        if self.process.returncode is not None:
            words = self.log.read_text(errors="replace").splitlines()[-5:]
            raise FailedError(f"demo: a process ended with status {self.process.returncode}: {' / '.join(words)}")


@contextlib.asynccontextmanager
async def _process(log: Path, environment: dict[str, str], *arguments: str) -> AsyncIterator[_Process]:
    """An `hwd` process, stopped with the block."""
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *own_python("-m", "hwd.cli", *arguments), stdout=file, stderr=file, env=environment
        )
    try:
        yield _Process(process, log)
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), END_WITHIN_S)
            except TimeoutError:
                process.kill()
                await process.wait()


async def _up(processes: list[_Process], environment: dict[str, str]) -> Client:
    """Wait until switches answer and every agent is connected with its clock aligned."""
    try:
        async with asyncio.timeout(UP_WITHIN_S):
            while True:
                for process in processes:
                    process.check()
                place = daemon_of("opus-testbed", environment)
                if place is not None and rack_of("opus-testbed", environment) is not None:
                    hwd = Client.find(place.http, environment)
                    status = hwd.status()
                    if all(one.up for one in status.switches) and all(one.aligned for one in status.hosts):
                        return hwd
                    hwd.close()
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        words = " / ".join(line for one in processes for line in one.log.read_text(errors="replace").splitlines()[-3:])
        raise LinkError(f"demo: the rack was not up within {UP_WITHIN_S:g} s: {words}") from None
