"""The time and memory of `hwd report`, of a run like the demo's, and of a thousand reconfigurations of 64 links."""

import random
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.child import in_shell, peak_mb
from bench.lab import INSTALLED, Lab
from bench.measure import Bar, Summary, alternate
from bench.progress import Progress
from hwd.config.run_files.places import records_path
from hwd.config.shipped_file import shipped_file
from hwd.model.host import HostEvent
from hwd.model.instant import Origin
from hwd.model.link import Link
from hwd.model.reconfiguration import (
    ReconfigurationCommanded,
    ReconfigurationEnded,
    ReconfigurationStarted,
    StartedLink,
    StartedMove,
)
from hwd.model.recorded_run import Run, RunOutcome
from hwd.records import RecordingSink, Records
from hwd.timeline import build_timeline
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.core.values import Crossconnect

SMALL, LARGE = 28, 1000
LINKS = 64
SMALL_S, LARGE_S, LARGE_MB = 5.0, 30.0, 500.0
IMPORT = "import altair, vl_convert, jinja2"


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    lab = Lab(folder)
    found = []
    sizes = (
        (2 if quick else SMALL, 8, SMALL_S, 2 if quick else 10),
        (LARGE, LINKS, LARGE_S, 4),
    )
    for count, links, limit_s, rounds in sizes[:1] if quick else sizes:
        data = folder / f"of-{count}"
        data.mkdir()
        progress.say(f"report: {count} reconfigurations of {links} links, recorded")
        await _record(data, count, links)
        command = (INSTALLED, "report", "bench", "--data", str(data), "-o", str(data / "report.html"))
        progress.say(f"report: {rounds} turns of `hwd report`")
        ours_s, floor_s = await alternate(
            rounds,
            partial(in_shell, lab.environment, *command),
            lambda: in_shell(lab.environment, sys.executable, "-c", IMPORT),
        )
        ours, floor = Summary.of(ours_s), Summary.of(floor_s)
        memory_mb = await peak_mb(lab.environment, *command)
        what = f"report of {count} reconfigurations of {links} links"
        page_mb = (data / "report.html").stat().st_size / 1e6
        found += [
            Bar(
                name=what,
                value=ours.median,
                limit=limit_s,
                unit="s",
                spread=(
                    f"quartiles {ours.p25:.2f}-{ours.p75:.2f}; to import what draws takes {floor.median:.2f} s; "
                    f"a page of {page_mb:.1f} MB"
                ),
                n=ours.n,
                detail={"ours_s": ours.to_data(), "floor_s": floor.to_data()},
            ),
            Bar(
                name=f"{what}, memory", value=memory_mb, limit=LARGE_MB, unit="MB", spread="peak of the process", n=1
            ),
        ]  # fmt: skip
    return found


async def _record(data: Path, count: int, links: int) -> None:
    records = Records(f"sqlite:///{records_path(data)}", InlineOffload())
    await records.open()
    sink = RecordingSink(records)
    run = Run(
        id="bench",
        playbook="reconfiguration-timeline",
        testbed="opus-testbed",
        version="0",
        started_wall_ns=1_800_000_000_000_000_000,
        testbed_text=shipped_file("examples", "opus-testbed").read_text(encoding="utf-8"),
        playbook_text=shipped_file("playbooks", "reconfiguration-timeline").read_text(encoding="utf-8"),
    )
    await records.runs.start(run)
    draw = random.Random(7)
    for index in range(count):
        for fact in _reconfiguration(draw, index, links):
            sink(Document(fact=fact, at_ns=index * 10**10, wall_ns=run.started_wall_ns + index * 10**10))
    await sink.end_run(run.id, outcome=RunOutcome.SUCCEEDED, why="", ended_wall_ns=run.started_wall_ns + count * 10**10)
    records.close()


def _reconfiguration(draw: random.Random, index: int, links: int) -> Iterator[Fact]:
    """Two topologies in turns; what each end saw, as agents report it."""
    id = f"r{index}"
    what = ("ring groups=dp", "pairs groups=pp")[index % 2]
    ends = [(f"h{number % 16}.eth{number // 16}", f"h{number % 16}.eth{number // 16 + 4}") for number in range(links)]
    started = ReconfigurationStarted(
        reconfiguration=id,
        run="bench",
        hash="0",
        what=what,
        links=[StartedLink(link=Link.parse(f"{a}<->{b}"), kept=False, switches=["ocs1"]) for a, b in ends],
        moves=[StartedMove(switch="ocs1", remove=[], add=[Crossconnect.parse("1A-2B")])],
    )
    start_ns = 10**10 * (index + 1)
    commanded = ReconfigurationCommanded(
        reconfiguration=id, switch="ocs1", commands=1,
        commanded_ns=start_ns, acknowledged_ns=start_ns + int(draw.uniform(0.19, 0.21) * 1e9),
    )  # fmt: skip
    yield started
    yield build_timeline(
        started=started,
        commanded=[commanded],
        events=[event for pair in ends for event in _events(draw, index, start_ns, pair)],
        sampled={},
        switch_origins={"ocs1": Origin.FITTED},
        dwells_s={f"{a}<->{b}": draw.uniform(9.5, 10.5) for a, b in ends} if index > 1 else {},
    )
    yield ReconfigurationEnded(reconfiguration=id, run="bench", outcome="confirmed", why="", seconds=3.5)


def _events(draw: random.Random, index: int, start_ns: int, pair: tuple[str, str]) -> Iterator[HostEvent]:
    light_s, up_s = draw.uniform(0.06, 0.095), draw.gauss(3.0, 0.15)
    rdma_s = up_s + draw.uniform(0.1, 0.2)
    ready_s = rdma_s + draw.uniform(0.002, 0.04)
    for end, peer in (pair, pair[::-1]):
        host, _, port = end.partition(".")
        carrier_s = up_s + draw.uniform(70e-6, 80e-6)
        for type, at_s, error_s, data in (
            ("dark", draw.uniform(0.001, 0.01), 0.0025, {"lanes": [None]}),
            ("light", light_s, 0.0025, {"lanes": [-3.0]}),
            ("firmware", up_s, 20e-6, {"up": True}),
            ("carrier", carrier_s, 60e-6, {"carrier": True}),
            ("rdma", rdma_s, 0.0005, {"active": True}),
            ("ready", ready_s, 30e-6, {"reconfiguration": f"r{index}", "peer": peer, "via": "udp"}),
        ):
            at_ns, error_ns = start_ns + int(at_s * 1e9), int(error_s * 1e9)
            yield HostEvent(
                host=host, boot="b", seq=0, type=type, port=port, agent_ns=0, origin=Origin.FITTED, source="twin",
                earliest_ns=at_ns - error_ns, latest_ns=at_ns + error_ns, best_ns=at_ns, data=data,
            )  # fmt: skip
