"""Jobs on a rack of processes: ranks that reduce over light that their control plane moves, whatever is killed."""

import asyncio
import contextlib
import getpass
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from .conftest import Data, Lab

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(180)]

EXAMPLES = Path(__file__).parents[2] / "examples"
RING = f"[{sys.executable}, {EXAMPLES / 'ring-allreduce' / 'ring_allreduce.py'}]"
RANK = """
import os, signal, sys, threading
from hwd_agents.shim import Rank

def leave(number, frame):
    print("asked to end", flush=True)
    sys.exit(7)

signal.signal(signal.SIGTERM, leave)
what, number = sys.argv[1], int(os.environ["HWD_RANK"])
if what == "absent" and number == 1:
    threading.Event().wait()
if what == "dies" and number == 1:
    sys.exit(3)
with Rank.from_environment() as rank:
    if what == "lies" and number == 1:
        rank.number = 0
    kind = "broadcast" if what == "disagrees" and number == 1 else "all-reduce"
    for step in range(10_000):
        with rank.operation("world", kind, within_s=30):
            print("step", step, flush=True)
"""
IDLE = """
from hwd.model.plane import PlaneKind

class Idle:
    def targets(self, job, view):
        return {}

    def on(self, event):
        return ()

IDLE = PlaneKind(make=lambda arguments: Idle())
"""
"""A plane that never answers."""
ONE_AT_A_TIME = """
from hwd.model.plane import Done, Grant, Intent, PlaneKind

class OneAtATime:
    def targets(self, job, view):
        self.waiting, self.sending = [], None
        return {}

    def on(self, event):
        match event:
            case Intent(rank=rank):
                self.waiting.append(rank)
            case Done(rank=rank) if rank == self.sending:
                self.sending = None
        if self.sending is None and self.waiting:
            self.sending = self.waiting.pop(0)
            yield Grant(ranks=(self.sending,))

ONE_AT_A_TIME = PlaneKind(make=lambda arguments: OneAtATime())
"""
CAREFUL = """
from hwd.model.plane import Applied, Done, Fallback, Grant, Intent, NotReady, PlaneKind, Switch, Target
from hwd.planes import Gathering

class Careful:
    def targets(self, job, view):
        self.gathering, self.ready, self.sending = Gathering(job.groups), [], set()
        self.lit, self.moving, self.tries_again = None, None, False
        return {"own": Target(links=view.topology("pairs rail=0"))}

    def on(self, event):
        match event:
            case Intent(operation=operation):
                self.ready += self.gathering.come(event)
                self.tries_again = operation.index >= 40
            case Done(rank=rank):
                self.sending.discard(rank)
            case Applied(target=target):
                self.lit, self.moving = target, None
            case NotReady(target=target):
                self.lit, self.moving = None, None
                if target == "own":
                    self.moving = "fallback"
                    yield Fallback(why="its own light was not there")
        if self.moving:
            return
        if self.lit is None or (self.tries_again and self.lit == "fallback"):
            if not self.sending:
                self.moving = "own"
                yield Switch(target="own")
        elif self.ready:
            ready, self.ready = self.ready, []
            self.sending.update(ready)
            yield Grant(ranks=tuple(ready))

CAREFUL = PlaneKind(make=lambda arguments: Careful())
"""
"""A plane that gives up its own light at the first failure, and tries it again from the 40th operation on."""
TURNS = """
import os, sys, threading
from pathlib import Path
from hwd_agents.shim import Rank
from hwd_drivers.core.errors import RefusedError

def until(name):
    while not Path(sys.argv[1], name).exists():
        threading.Event().wait(0.05)

with Rank.from_environment() as rank:
    if rank.number == 1:
        until("second")
    with rank.operation(f"g{rank.number}", "all-reduce", within_s=60):
        print("in its block", flush=True)
        try:
            with rank.operation(f"g{rank.number}", "all-reduce", within_s=60):
                print("in two blocks", flush=True)
        except RefusedError as error:
            print("refused:", error, flush=True)
        until(f"leave{rank.number}")
    print("has left its block", flush=True)
    until("end")
"""
"""Each rank sends when the other one does not; files in a folder say when it goes on."""


MEETING = """
from hwd_agents.shim import Rank, meet
with Rank.from_environment() as rank:
    meet(rank, within_s=3)
    print("met", flush=True)
"""


OTHER_WAY = """
import socket, sys, threading
from pathlib import Path
from hwd_agents.shim import Rank, meet

SIZE = 500_000
with Rank.from_environment() as rank:
    meet(rank)
    way = "electrical" if sys.argv[1] == "electrical" else "optical"
    own, peer = (next(iter(getattr(rank.places[n], way).values())) for n in (rank.number, 1 - rank.number))
    with socket.create_server((own, 29_500)) as listener:
        meet(rank)
        size = 0 if sys.argv[1] == "wait" else SIZE
        with rank.operation("world", "all-reduce", size_bytes=size, within_s=60):
            print("in its block", flush=True)
            if sys.argv[1] == "wait":
                while not Path(__file__).with_name("go").exists():
                    threading.Event().wait(0.05)
                sys.exit()
            with socket.create_connection((peer, 29_500), source_address=(own, 0)) as to:
                sender = threading.Thread(target=to.sendall, args=(bytes(SIZE),))
                sender.start()
                with listener.accept()[0] as one:
                    got = 0
                    while got < SIZE:
                        got += len(one.recv(65536))
                sender.join()
        meet(rank)
"""
"""Two ranks send each other their tensors, over light or over the packet switch; or wait for a file."""


SHUFFLE = """
import socket, threading
from hwd_agents.shim import Rank, meet

PART = 500_000

def take(listener, size):
    with listener.accept()[0] as one:
        while size and (data := one.recv(65536)):
            size -= len(data)

with Rank.from_environment() as rank:
    ranks = len(rank.places)
    with socket.create_server(("", 29_500)) as listener:
        meet(rank)
        for step in range(4):
            with rank.operation("world", "all-to-all", size_bytes=ranks * PART, within_s=60):
                takes = [threading.Thread(target=take, args=(listener, PART)) for _ in range(ranks - 1)]
                for one in takes:
                    one.start()
                for other in range(ranks):
                    if other != rank.number:
                        address = next(iter(rank.places[other].optical.values()))
                        with socket.create_connection((address, 29_500), timeout=20) as to:
                            to.sendall(bytes(PART))
                for one in takes:
                    one.join()
            print("step", step, flush=True)
        meet(rank)
"""
"""Each rank sends a part of its own to each other one: in a ring of four, one of the three is two hops away."""


def rack_of(hosts: int, jobs: str, *, electrical: bool = False, rate_mbit_s: int | None = None) -> str:
    """Each host has two NIC ports on one switch, and a third one on a packet switch where that is wanted."""
    rate = "" if rate_mbit_s is None else f"rate_mbit_s: {rate_mbit_s}, "
    size = 16
    lines = [
        "testbed: lab",
        "switches:",
        f"  ocs1: {{driver: polatis-tl1, model: polatis-6000, size: {size}x{size}, twin: {{timing: ideal, seed: 7}}}}",
        *(["packet_switches: {eps1: {ports: 8}}"] if electrical else []),
        "hosts:",
    ]
    for host in range(hosts):
        nics = [f"eth{n}: {{{rate}rail: 0, ip: 10.1.{n}.{host + 1}/32, module: 100g-lr4}}" for n in range(2)]
        if electrical:
            nics.append(f"eth2: {{{rate}ip: 10.5.0.{host + 1}/32, module: 100g-lr4}}")
        twin = f"twin: {{kernel: true, timing: ideal, seed: {host}}}"
        lines.append(f"  h{host}: {{{twin}, nics: {{{', '.join(nics)}}}}}")
    lines.append("fibres:")
    lines += [f"  - h{host}.eth{n} <-> ocs1.{2 * host + n + 1}" for host in range(hosts) for n in range(2)]
    if electrical:
        lines += [f"  - h{host}.eth2 <-> eps1.{host + 1}" for host in range(hosts)]
    return "\n".join(lines) + f"\njobs:\n{jobs}"


def install_planes(folder: Path) -> None:
    """The rotor, as the wheel that it is, and two of the tests."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", folder, EXAMPLES / "rotor-plane"], check=True, timeout=120)
    for name, text in {"idle": IDLE, "one_at_a_time": ONE_AT_A_TIME, "careful": CAREFUL, "routing": ROUTING}.items():
        (folder / f"{name}_plane.py").write_text(text)
        info = folder / f"{name}_plane-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-plane\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[hwd.planes]\n{name} = {name}_plane:{name.upper()}\n")


async def start(lab: Lab, *words: str) -> str:
    """Start a job; its id."""
    said = await lab.hwd("job", "run", "--no-follow", "--json", *words)
    assert said.status == 0, said
    id: str = said.json["id"]
    return id


async def at_step(lab: Lab, job: str, step: int) -> None:
    """Wait until rank 0 has written so many lines."""

    async def look() -> bool | None:
        return True if len(await lines(lab, job, 0)) > step else None

    await lab.found(f"job {job} is at step {step}", look)


async def lines(lab: Lab, job: str, rank: int) -> list[str]:
    """What a rank has written, as far as it is known."""
    path = lab.data / "jobs" / job / f"rank{rank}.log"
    return path.read_text().splitlines() if path.exists() else []


async def ended(lab: Lab, job: str) -> Data:
    async def look() -> Data | None:
        now: Data | None = await lab.get(f"/api/v1/jobs/{job}")
        return now if now is not None and now["ended_wall_ns"] is not None else None

    return await lab.found(f"job {job} ends", look, 60)


def assert_holds_nothing(now: Data) -> None:
    assert (now["leases"], now["sets"], now["transfers"], now["jobs"]) == ([], [], [], [])


def running(job: str) -> list[int]:
    """Processes of its ranks, by their environment."""
    found = []
    for one in Path("/proc").iterdir():
        if one.name.isdigit():
            try:
                environment = (one / "environ").read_bytes()
            except OSError:
                continue
            if f"HWD_JOB={job}".encode() in environment.split(b"\0"):
                found.append(int(one.name))
    return found


async def test_ranks_reduce_over_a_plane_of_a_stranger_while_agent_and_daemon_are_killed(lab: Lab) -> None:
    planes = lab.folder / "planes"
    install_planes(planes)
    lab.environment["PYTHONPATH"] = str(planes)
    train = f"{{command: {RING}, user: {getpass.getuser()}, hosts: [h0, h1, h2, h3], arguments: true"
    text = rack_of(4, f"  train: {train}, plane: rotor period_s=0.2}}\n")
    daemon = await lab.up(text=text)
    job = await start(lab, "train", "--", "--steps", "150")
    await at_step(lab, job, 10)
    os.kill(lab.rack["hosts"]["h1"]["agent"], signal.SIGKILL)
    await at_step(lab, job, 50)
    assert await daemon.end(signal.SIGKILL) == -signal.SIGKILL
    before = running(job)
    await lab.serve()
    await at_step(lab, job, 100)
    assert running(job) == before != []
    found = await ended(lab, job)
    assert (found["state"], found["why"]) == ("succeeded", "")
    for rank in range(4):
        wanted = [f"step {step}: each of 4096 sums is {6 + 4 * step}" for step in range(150)]
        assert await lines(lab, job, rank) == wanted
    verified = await lab.hwd("job", "verify", job)
    assert verified.status == 0, verified
    assert "600 operations" in verified.out
    switched = await lab.documents("job.switched")
    assert len({one["target"] for one in switched if not one["why"]}) == 3
    assert_holds_nothing(await lab.until("it is over", lambda now: not now["jobs"]))
    assert running(job) == []


@pytest.fixture
async def pair(lab: Lab) -> Lab:
    """Two hosts, and jobs that fail in different ways."""
    planes = lab.folder / "planes"
    install_planes(planes)
    lab.environment["PYTHONPATH"] = str(planes)
    rank = lab.folder / "rank.py"
    rank.write_text(RANK)
    common = f"user: {getpass.getuser()}, hosts: [h0, h1]"
    jobs = "".join(
        f"  {name}: {{command: [{sys.executable}, {rank}, {name}], {common}, {more}}}\n"
        for name, more in {
            "goes": "plane: static topology=ring",
            "absent": "plane: static topology=ring, arrive_within_s: 1.5",
            "dies": "plane: static topology=ring",
            "lies": "plane: static topology=ring, answer_within_s: 3",
            "disagrees": "plane: static topology=ring",
            "idle": "plane: idle, answer_within_s: 1",
        }.items()
    )
    await lab.up(text=rack_of(2, jobs))
    return lab


async def test_job_that_cannot_go_on_fails_with_the_reason_and_the_name_and_leaves_nothing(pair: Lab) -> None:
    for name, parts in {
        "absent": ["rank 1 on h1 did not come within 1.5 s"],
        "dies": ["rank 1 on h1 ended with status 3"],
        "disagrees": ["comes with", "broadcast 0 of world", "all-reduce 0 of world"],
        "idle": ["waited 1 s for plane idle to answer all-reduce 0 of world", "all its ranks came to it"],
        "lies": ["rank 1 on h1 ended with status 1"],
    }.items():
        said = await pair.hwd("job", "run", name)
        assert said.status == 1, said
        assert all(part in said.err for part in parts), (name, said.err)
        assert_holds_nothing(await pair.until("it is over", lambda now: not now["jobs"]))
    refused = await pair.documents("job.rank-refused")
    assert [(one["rank"], one["host"], one["why"]) for one in refused if one["entry"] == "lies"] == [
        (0, "h1", "the job has no rank 0 on h1")
    ]
    assert running_of(refused) == []


def running_of(facts: Iterable[Data]) -> list[int]:
    return [pid for fact in facts for pid in running(fact["job"])]


async def test_job_is_stopped_and_another_one_on_its_ports_is_refused(pair: Lab) -> None:
    job = await start(pair, "goes")
    await at_step(pair, job, 3)
    other = await pair.hwd("job", "run", "goes")
    assert other.status == 1
    assert f"held by job {job}" in other.err or job in other.err
    shown = await pair.hwd("job", "show", job)
    assert "light at static" in shown.out
    applied = await pair.hwd("apply", "h0.eth0<->h1.eth0", "--no-ready")
    assert applied.status == 3  # the lease of the job
    stopped = await pair.hwd("job", "stop", job, "--json")
    assert (stopped.json["state"], stopped.json["lease"]) == ("stopped", "")
    assert running(job) == []
    assert_holds_nothing(await pair.until("it is over", lambda now: not now["jobs"]))
    written = (await pair.hwd("job", "logs", job)).out.splitlines()
    assert "step 3" in written
    assert written[-1] == "asked to end"
    assert [rank["state"] for rank in stopped.json["ranks"]] == ["ended with status 7"] * 2


async def test_what_is_not_allowed_is_refused_and_nothing_is_started(pair: Lab) -> None:
    strange = await pair.hwd("job", "run", "gose")
    assert strange.status == 2
    assert "did you mean goes" in strange.err
    words = await pair.hwd("job", "run", "goes", "--", "--steps")
    assert words.status == 3
    assert "it takes no arguments" in words.err
    assert (await pair.hwd("job", "list", "--json")).json == []


async def test_daemon_that_is_asked_to_end_leaves_ranks_and_lease_and_the_next_one_goes_on(pair: Lab) -> None:
    daemon = pair.programs[-1]
    following = pair.go("job", "run", "goes")
    now = await pair.until("the job runs", lambda now: [one for one in now["jobs"] if one["state"] == "running"])
    job = now["jobs"][0]["id"]
    await at_step(pair, job, 3)
    assert await daemon.end(signal.SIGTERM) == 0
    said = await following
    assert said.status == 4
    assert f"The job goes on all the same: `hwd job show {job}`" in said.err
    before = running(job)
    assert before
    light = await pair.light()
    old = pair.data / "jobs" / "gone1234"
    old.mkdir()
    (old / "rank0.log").touch()
    await pair.serve()
    await at_step(pair, job, 50)
    assert not old.exists(), "the records know no such job"
    assert running(job) == before
    assert await pair.light() == light
    async with asyncio.timeout(60):
        stopped = await pair.hwd("job", "stop", job, "--json")
    assert stopped.json["state"] == "stopped"


async def test_rendezvous_goes_over_the_packet_switch_and_says_where_its_fibre_is_cut(lab: Lab) -> None:
    rank = lab.folder / "rank.py"
    rank.write_text(MEETING)
    common = f"command: [{sys.executable}, {rank}], user: {getpass.getuser()}, hosts: [h0, h1, h2]"
    await lab.up(text=rack_of(3, f"  meets: {{{common}, plane: static topology=ring}}\n", electrical=True))
    said = await lab.hwd("job", "run", "meets")
    assert said.status == 0, said.err
    assert (await lab.hwd("fault", "h2.eth2", "cut", "strand=both")).status == 0
    said = await lab.hwd("job", "run", "meets")
    assert said.status == 1
    parts = [
        ("rank 2 on h2: cannot meet rank 0 on h0", "from 10.5.0.3 (eth2) to 10.5.0.1:29400 (eth2)"),
        ("rank 2 on h2: did not come to rank 0 at 10.5.0.1:29400",),
    ]
    assert any(all(part in said.err for part in one) for one in parts), said.err  # whichever of them ends first


async def test_step_of_a_playbook_runs_a_job_to_its_end_and_the_end_of_a_run_ends_it(pair: Lab) -> None:
    pair.playbook.write_text("playbook: jobs\nsteps:\n  - job: {name: dies}\n  - note: never\n")
    said = await pair.hwd("run", str(pair.playbook), "--json")
    assert said.status == 1
    assert "rank 1 on h1 ended with status 3" in said.err
    pair.playbook.write_text("playbook: jobs\nsteps:\n  - job: {name: goes}\n")
    running_it = pair.go("run", str(pair.playbook), "--json")
    now = await pair.until("the job runs", lambda now: [one for one in now["jobs"] if one["state"] == "running"])
    job = now["jobs"][0]["id"]
    await at_step(pair, job, 3)
    assert (await pair.hwd("abort", now["runs"][0]["run"])).status == 0
    assert (await running_it).status != 0
    found = await ended(pair, job)
    assert (found["state"], found["by"]) == ("stopped", f"run {now['runs'][0]['run']}")
    assert running(job) == []
    pair.playbook.write_text("playbook: jobs\nsteps:\n  - job: {name: gose}\n")
    said = await pair.hwd("run", str(pair.playbook))
    assert said.status == 2
    assert "gose: no job of the testbed file; did you mean goes" in said.err


async def test_end_of_an_operation_reaches_its_plane_over_a_killed_daemon_and_none_is_within_another(lab: Lab) -> None:
    planes, files = lab.folder / "planes", lab.folder / "files"
    install_planes(planes)
    files.mkdir()
    lab.environment["PYTHONPATH"] = str(planes)
    program = lab.folder / "turns.py"
    program.write_text(TURNS)
    more = f"user: {getpass.getuser()}, hosts: [h0, h1], plane: one_at_a_time, groups: {{g0: [0], g1: [1]}}"
    jobs = f"  turns: {{command: [{sys.executable}, {program}, {files}], {more}}}\n"
    daemon = await lab.up(text=rack_of(2, jobs))
    job = await start(lab, "turns")
    await at_step(lab, job, 1)
    assert "all-reduce 0 of g0 has not ended: one at a time" in (await lines(lab, job, 0))[1]
    (files / "second").touch()
    await lab.until(
        "rank 1 waits",
        lambda now: [one for one in now["jobs"] if [rank["state"] for rank in one["ranks"]][1] == "waiting"],
    )
    await daemon.end(signal.SIGKILL)
    await lab.serve()
    await lab.until("the job is there again", lambda now: [one for one in now["jobs"] if one["state"] == "running"])
    (files / "leave0").touch()

    async def look() -> bool | None:
        return True if "in its block" in await lines(lab, job, 1) else None

    await lab.found("rank 1 sends", look)
    for name in ("leave1", "end"):
        (files / name).touch()
    assert (await ended(lab, job))["state"] == "succeeded"


async def test_plane_falls_back_to_the_giant_ring_and_comes_back_over_a_killed_daemon(lab: Lab) -> None:
    planes, rank = lab.folder / "planes", lab.folder / "rank.py"
    install_planes(planes)
    rank.write_text(RANK)
    lab.environment["PYTHONPATH"] = str(planes)
    more = f"user: {getpass.getuser()}, hosts: [h0, h1], plane: careful, fallback: true"
    daemon = await lab.up(text=rack_of(2, f"  goes: {{command: [{sys.executable}, {rank}, goes], {more}}}\n"))
    assert (await lab.hwd("fault", "ocs1", "deny", "code=SROF", "text=Equipment failure")).status == 0
    job = await start(lab, "goes")
    await at_step(lab, job, 3)
    assert "light at fallback" in (await lab.hwd("job", "show", job)).out
    ring = [one["what"] for one in await lab.documents("reconfiguration.started")][-1]
    assert ring.endswith("to fallback")
    assert await daemon.end(signal.SIGKILL) == -signal.SIGKILL
    await lab.serve()
    await at_step(lab, job, 60)
    assert "light at own" in (await lab.hwd("job", "show", job)).out
    assert (await lab.hwd("job", "stop", job)).status == 0
    switched = [
        (one["target"], "Equipment failure" in one["why"], one.get("fallback", ""))
        for one in await lab.documents("job.switched")
    ]
    assert switched == [("own", True, ""), ("fallback", False, "its own light was not there"), ("own", False, "")]
    verified = await lab.hwd("job", "verify", job)
    assert verified.status == 0, verified


async def test_verification_finds_light_that_was_taken_and_bytes_that_went_another_way(lab: Lab) -> None:
    rank = lab.folder / "rank.py"
    rank.write_text(OTHER_WAY)
    common = (
        f"command: [{sys.executable}, {rank}], user: {getpass.getuser()}, hosts: [h0, h1], plane: static topology=ring"
    )
    await lab.up(text=rack_of(2, f"  away: {{{common}, arguments: true}}\n", electrical=True))
    job = await start(lab, "away", "--", "optical")
    assert (await ended(lab, job))["state"] == "succeeded"
    said = await lab.hwd("job", "verify", job)
    assert (said.status, "holds" in said.out) == (0, True), said
    job = await start(lab, "away", "--", "electrical")
    assert (await ended(lab, job))["state"] == "succeeded"
    said = await lab.hwd("job", "verify", job, "--json")
    assert said.status == 1
    (found,) = said.json
    breaches = sorted((one["rank"], one["kind"], one["what"]) for one in found["breaches"])
    assert [(rank, kind) for rank, kind, _ in breaches] == [(0, "bytes"), (1, "bytes")]
    assert "over others: h0.eth2 " in breaches[0][2]
    job = await start(lab, "away", "--", "wait")
    await at_step(lab, job, 0)
    assert (await lab.hwd("fault", "h0.eth0", "cut", "strand=both")).status == 0
    await lab.until("the link is down", lambda now: not now["hosts"][0]["ports"]["eth0"]["carrier"])
    (lab.folder / "go").touch()
    await ended(lab, job)
    said = await lab.hwd("job", "verify", job)
    assert said.status == 1
    assert "dark: rank 0 on h0, all-reduce 0 of world: h0.eth0 lost its carrier" in said.out
    assert (await lab.hwd("job", "verify", "nosuch")).status == 2


async def test_efficiency_of_a_ring_all_reduce_is_its_law_and_an_all_to_all_shows_the_hops_of_the_ring(
    lab: Lab,
) -> None:
    shuffle = lab.folder / "shuffle.py"
    shuffle.write_text(SHUFFLE)
    common = f"user: {getpass.getuser()}, hosts: [h0, h1, h2, h3], plane: static topology=ring"
    jobs = f"  train: {{command: {RING}, {common}, arguments: true}}\n"
    jobs += f"  shuffle: {{command: [{sys.executable}, {shuffle}], {common}}}\n"
    await lab.up(text=rack_of(4, jobs, electrical=True, rate_mbit_s=800))
    job = await start(lab, "train", "--", "--steps", "10000", "--numbers", "131072")

    async def look() -> dict[str, float] | None:
        text = await lab.get("/metrics")
        found = dict(re.findall(rf'^hwd_job_efficiency_ratio{{factor="(\w+)",job_id="{job}"}} (\S+)$', text, re.M))
        return {name: float(value) for name, value in found.items()} or None

    live = await lab.found("its efficiency is told while it runs", look)
    assert (await lab.hwd("job", "stop", job)).status == 0
    assert await look() is None
    said = await lab.hwd("job", "efficiency", job, "--json")
    assert said.status == 0, said
    (found,) = said.json
    assert {(one["scope"], one["name"]) for one in found["rows"]} == {
        ("job", "train"),
        ("phase", "world"),
        ("kind", "all-reduce"),
    }
    law = 4 / (2 * 3)
    for one in (live, *found["rows"]):
        assert 0.95 * law < one["gamma"] <= law, found
        assert one["delta"] == 1, found
        assert 0 < one["theta"] < 1, found
        assert one["eta"] == pytest.approx(one["gamma"] * one["delta"] * one["theta"])
    assert found["rows"][0]["operations"] >= 10
    job = await start(lab, "shuffle")
    assert (await ended(lab, job))["state"] == "succeeded"
    (found,) = (await lab.hwd("job", "efficiency", job, "--json")).json
    whole = found["rows"][0]
    assert whole["operations"] == 4, found
    assert whole["gamma"] == pytest.approx(1, rel=0.1), found
    assert whole["delta"] == pytest.approx(3 / 4, rel=0.1), found
    said = await lab.hwd("job", "efficiency", job)
    assert "4 of 4 operations between hosts" in said.out
    assert "kind   all-to-all  4" in said.out
    assert (await lab.hwd("job", "efficiency", "nosuch")).status == 2


async def test_agent_that_comes_back_after_the_daemon_holds_the_light_up_and_fails_nothing(lab: Lab) -> None:
    planes = lab.folder / "planes"
    install_planes(planes)
    lab.environment["PYTHONPATH"] = str(planes)
    train = f"{{command: {RING}, user: {getpass.getuser()}, hosts: [h0, h1, h2, h3], arguments: true"
    daemon = await lab.up(text=rack_of(4, f"  train: {train}, plane: rotor period_s=0.02}}\n"))
    job = await start(lab, "train", "--", "--steps", "60")
    await at_step(lab, job, 8)
    agent = lab.rack["hosts"]["h0"]["agent"]
    os.kill(agent, signal.SIGSTOP)
    try:
        await daemon.end(signal.SIGKILL)
        await lab.serve()
        await lab.until(
            "all other hosts have reported",
            lambda now: (
                [host["up"] for host in now["hosts"]] == [False, True, True, True]
                and [one["host"] for one in now["transfers"] if not one["transfer"]] == ["h0"]
            ),
        )
        await lab.until("the job goes on", lambda now: [one for one in now["jobs"] if one["state"] == "running"])
    finally:
        os.kill(agent, signal.SIGCONT)
    found = await ended(lab, job)
    assert (found["state"], found["why"]) == ("succeeded", "")


async def test_job_whose_host_has_left_the_testbed_file_fails_and_the_daemon_and_other_jobs_go_on(pair: Lab) -> None:
    job = await start(pair, "goes")
    await at_step(pair, job, 3)
    assert not any(b"HWD_JOB_KEY" in one for one in command_lines())
    await pair.programs[-1].end(signal.SIGKILL)
    text = pair.testbed.read_text()
    pair.testbed.write_text(
        text.replace("  h1: ", "  h9: ").replace("h1.eth", "h9.eth").replace("[h0, h1]", "[h0, h9]")
    )
    await pair.serve()
    found = await ended(pair, job)
    assert found["state"] == "failed"
    assert "h1: no host of the testbed file any more" in found["why"]
    assert "rank 1: h1: is no host of the testbed file any more" in found["why"]
    assert_holds_nothing(await pair.until("h0 has reported", lambda now: not now["jobs"] and not now["transfers"]))
    for pid in running(job):
        os.kill(pid, signal.SIGKILL)  # the rank on the host that hwd does not know any more


def command_lines() -> list[bytes]:
    found = []
    for one in Path("/proc").iterdir():
        if one.name.isdigit():
            with contextlib.suppress(OSError):
                found.append((one / "cmdline").read_bytes())
    return found


ROUTING = """
from hwd.model.plane import Applied, Done, Grant, Intent, NotReady, PlaneKind, Refuse, Route, StaticRoute
from hwd.model.plane import Switch, Target
from hwd.planes import Gathering

class Routing:
    def targets(self, job, view):
        self.gathering, self.ready, self.sending, self.lit, self.moving = Gathering(job.groups), (), set(), None, False
        links = view.topology("ring")
        to = {f"{one.host}.{one.port}": one for one in view.ports}
        def by(host, out, via):
            return StaticRoute(host=host, to=to["h2.eth0"], port=to[out], via=to[via])
        [first] = [link for link in links if {end.host for end in link.ends} == {"h0", "h1"}]
        [last] = [link for link in links if {end.host for end in link.ends} == {"h0", "h3"}]
        near = {link: {end.host: f"{end.host}.{end.port}" for end in link.ends} for link in (first, last)}
        by_first = by("h0", near[first]["h0"], near[first]["h1"])
        by_last = by("h0", near[last]["h0"], near[last]["h3"])
        return {
            "first": Target(links=links, routes=(by_first,)),
            "last": Target(links=links, routes=(by_last,)),
        }

    def on(self, event):
        match event:
            case Intent(operation=operation):
                self.ready += self.gathering.come(event)
                self.index = operation.index
            case Done(rank=rank):
                self.sending.discard(rank)
            case Applied(target=target):
                self.lit, self.moving = target, False
            case NotReady(why=why):
                self.moving = False
                yield Refuse(ranks=self.ready, why=why)
                self.ready = ()
        if not self.ready or self.moving or self.sending:
            return
        wanted = "last" if self.index in (1, 2) else "first"
        if self.lit != wanted:
            self.moving = True
            yield Switch(target=wanted)
            return
        if self.index == 4:
            yield Route(routes=())
        self.sending.update(self.ready)
        yield Grant(ranks=self.ready)
        self.ready = ()

ROUTING = PlaneKind(make=lambda arguments: Routing())
"""
"""h0 reaches h2 over h1, in the operations 1 and 2 over h3, and from the 4th on as its host does by itself."""
ROUTED = """
import subprocess, sys, threading
from pathlib import Path
from hwd_agents.shim import Rank

with Rank.from_environment() as rank:
    to = rank.places[2].optical["eth0"]
    for step in range(5):
        with rank.operation("world", "all-reduce", within_s=60):
            found = subprocess.run(["ip", "route", "show", to], capture_output=True, text=True, check=True).stdout
            print(step, "; ".join(line for line in found.splitlines() if "proto static" in line), flush=True)
        while step == 2 and not Path(__file__).with_name("go").exists():
            threading.Event().wait(0.05)
"""


async def test_routes_of_a_plane_are_set_before_ranks_go_outlive_the_daemon_and_are_gone_in_the_end(lab: Lab) -> None:
    planes = lab.folder / "planes"
    install_planes(planes)
    lab.environment["PYTHONPATH"] = str(planes)
    program = lab.folder / "routed.py"
    program.write_text(ROUTED)
    entry = f"command: [{sys.executable}, {program}], user: {getpass.getuser()}, hosts: [h0, h1, h2, h3]"
    text = rack_of(4, f"  go: {{{entry}, plane: routing}}\n")
    daemon = await lab.up(text=f"{text}host_actions: [route]\n")
    job = await start(lab, "go")
    await at_step(lab, job, 2)
    assert await daemon.end(signal.SIGKILL) == -signal.SIGKILL
    await lab.serve()
    await lab.until("the job goes on", lambda now: bool(now["jobs"]))
    (lab.folder / "go").touch()
    found = await ended(lab, job)
    assert (found["state"], found["why"]) == ("succeeded", "")
    by_first, by_last = "via 10.1.0.2 dev eth1", "via 10.1.1.4 dev eth0"  # as the ring joins them
    told = [line.partition(" ")[2] for line in await lines(lab, job, 0)]
    set_by_plane = [";".join(one for one in line.split("; ") if "metric" not in one).strip() for line in told]
    prefix, suffix = "10.1.0.3 ", " proto static"
    assert set_by_plane == [f"{prefix}{via}{suffix}" for via in (by_first, by_last, by_last, by_first)] + [""]
    now = await lab.until("it is over", lambda now: not now["jobs"])
    assert_holds_nothing(now)
    assert [host["settings"] for host in now["hosts"]] == [[]] * 4


async def test_job_whose_plane_sets_routes_that_the_testbed_does_not_allow_does_not_begin(lab: Lab) -> None:
    planes = lab.folder / "planes"
    install_planes(planes)
    lab.environment["PYTHONPATH"] = str(planes)
    entry = f"command: [{sys.executable}, -c, pass], user: {getpass.getuser()}, hosts: [h0, h1, h2, h3], plane: routing"
    await lab.up(text=rack_of(4, f"  go: {{{entry}}}\n"))
    said = await lab.hwd("job", "run", "go")
    assert said.status == 1, said
    assert "route is not among the host_actions of testbed lab" in said.err
