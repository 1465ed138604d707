"""Racks that run jobs: their testbeds, programs and planes, and what tests ask of a job."""

import getpass
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .conftest import Lab, Program

EXAMPLES = Path(__file__).parents[2] / "examples"
RING = f"[{sys.executable}, {EXAMPLES / 'ring-allreduce' / 'ring_allreduce.py'}]"
HELD_AT = 30
"""Before this operation ranks that are `held` wait for a file `go` beside their program."""
RANKS = """
import os, signal, socket, subprocess, sys, threading
from pathlib import Path
from hwd_agents.shim import Rank, meet
from hwd_drivers.core.errors import RefusedError

def until(name):
    while not Path(__file__).with_name(name).exists():
        threading.Event().wait(0.01)

def take(listener, size):
    with listener.accept()[0] as one:
        while size and (data := one.recv(65536)):
            size -= len(data)

def send(own, peer, size):
    while True:
        try:
            to = socket.create_connection((peer, 29_500), 1, source_address=(own, 0))
            break
        except OSError:
            threading.Event().wait(0.01)
    with to:
        to.settimeout(None)
        to.sendall(bytes(size))

def exchange(listener, own, peer, size):
    sender = threading.Thread(target=send, args=(own, peer, size))
    sender.start()
    take(listener, size)
    sender.join()

def addresses(rank, way):
    return (next(iter(getattr(rank.places[n], way).values())) for n in (rank.number, 1 - rank.number))
"""
"""The begin of programs of ranks that wait for files beside them, and send each other bytes."""
RANK = f"""{RANKS}
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
    size = 1 << 20 if what == "heavy" else 0
    kind = "broadcast" if what == "disagrees" and number == 1 else "all-reduce"
    for step in range(10_000):
        if what == "held" and step == {HELD_AT}:
            until("go")
        with rank.operation("world", kind, size_bytes=size, within_s=30):
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
MOVING = """
from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.plane import Applied, Demand, Done, Failure, Fallback, Grant, Intent, NotReady, PlaneKind, Switch
from hwd.model.plane import Target, Tick
from hwd.planes import Gathering

class Moving:
    def targets(self, job, view):
        self.gathering, self.ready, self.sending = Gathering(job.groups), [], set()
        self.lit, self.moving, self.why, self.at_s, self.again_s = None, None, "", 0.0, 0.0
        return self.lights(job, view)

    def on(self, event):
        match event:
            case Intent():
                self.ready += self.gathering.come(event)
            case Done(rank=rank):
                self.sending.discard(rank)
            case Tick(at_s=at_s):
                self.at_s = at_s
            case Applied(target=target):
                self.lit, self.moving = target, None
            case NotReady():
                self.lit, self.moving = None, None
        self.hear(event)
        if self.moving:
            return
        if self.lit != self.wanted:
            if not self.sending:
                self.moving = self.wanted
                yield Fallback(why=self.why) if self.wanted == "fallback" else Switch(target=self.wanted)
        elif self.ready:
            ready, self.ready = self.ready, []
            self.sending.update(ready)
            yield Grant(ranks=tuple(ready))

def light_by_port(job):
    links = {port: Link.of(*(NicPortId(host=host, port=port) for host in job.hosts)) for port in ("eth0", "eth1")}
    return {port: Target(links=(link,)) for port, link in links.items()}
"""
"""The begin of planes that let ranks go at the light that is `wanted`, and move it when nobody sends."""
CAREFUL = f"""{MOVING}
class Careful(Moving):
    wanted = "own"

    def lights(self, job, view):
        return {{"own": Target(links=view.topology("pairs rail=0"))}}

    def hear(self, event):
        match event:
            case NotReady(target="own"):
                self.wanted, self.why = "fallback", "its own light was not there"
            case Intent(operation=operation) if operation.index >= 40:
                self.wanted = "own"

CAREFUL = PlaneKind(make=lambda arguments: Careful())
"""
"""A plane that gives up its own light at the first failure, and tries it again from the 40th operation on."""
WARY = f"""{MOVING}
class Wary(Moving):
    def lights(self, job, view):
        return light_by_port(job)

    def hear(self, event):
        match event:
            case NotReady():
                self.again_s = self.at_s + 1
            case Failure(ports=ports) if any(port.port == "eth0" for port in ports):
                self.again_s = self.at_s + 1
        self.wanted = "eth0" if self.at_s >= self.again_s else "eth1"

WARY = PlaneKind(make=lambda arguments: Wary())
"""
"""A plane that leaves a link when it hears of its failure, and tries it again each second."""
BY_DEMAND = f"""{MOVING}
class ByDemand(Moving):
    wanted = "eth0"

    def lights(self, job, view):
        return light_by_port(job)

    def hear(self, event):
        match event:
            case Demand(bytes_between=bytes_between):
                self.wanted = "eth1" if min(bytes_between.values()) >= 1 << 20 and len(bytes_between) == 2 else "eth0"

BY_DEMAND = PlaneKind(make=lambda arguments: ByDemand(), demand_s=0.3)
"""
"""A plane with a second link for hosts that announce a mebibyte for each other in 0.3 s."""


def rack_of(
    hosts: int,
    jobs: str,
    *,
    electrical: bool = False,
    rate_mbit_s: int | None = None,
    switches: int = 1,
    actions: str = "",
) -> str:
    """Each host has two NIC ports on one of the switches, which have the same number of hosts, and a third one on a
    packet switch where that is wanted.
    """
    rate = "" if rate_mbit_s is None else f"rate_mbit_s: {rate_mbit_s}, "
    driven = "driver: polatis-tl1, model: polatis-6000, size: 16x16, twin: {timing: ideal, seed: "
    lines = ["testbed: lab", "switches:", *(f"  ocs{n + 1}: {{{driven}{n + 7}}}}}" for n in range(switches))]
    lines += [*(["packet_switches: {eps1: {ports: 8}}"] if electrical else []), "hosts:"]
    for host in range(hosts):
        nics = [f"eth{n}: {{{rate}rail: 0, ip: 10.1.{n}.{host + 1}/32, module: 100g-lr4}}" for n in range(2)]
        if electrical:
            nics.append(f"eth2: {{{rate}ip: 10.5.0.{host + 1}/32, module: 100g-lr4}}")
        twin = f"twin: {{kernel: true, timing: ideal, seed: {host}}}"
        lines.append(f"  h{host}: {{{twin}, nics: {{{', '.join(nics)}}}}}")
    lines.append("fibres:")
    each = hosts // switches
    lines += [
        f"  - h{host}.eth{n} <-> ocs{host // each + 1}.{2 * (host % each) + n + 1}"
        for host in range(hosts)
        for n in range(2)
    ]
    if electrical:
        lines += [f"  - h{host}.eth2 <-> eps1.{host + 1}" for host in range(hosts)]
    lines += [f"host_actions: [{actions}]"] if actions else []
    return "\n".join(lines) + f"\njobs:\n{jobs}"


async def ranks_up(
    lab: "Lab", program: str, entry: str, *, name: str = "goes", hosts: int = 2, planes: object = "", **rack: Any
) -> "Program":
    """A rack whose job `name` has a rank on each host that runs this program, with its name as an argument.

    Returns its daemon.
    """
    path = lab.folder / "rank.py"
    path.write_text(program)
    if planes:
        lab.environment["PYTHONPATH"] = str(planes)
    among = ", ".join(f"h{number}" for number in range(hosts))
    command = f"command: [{sys.executable}, {path}, {name}], user: {getpass.getuser()}, hosts: [{among}]"
    return await lab.up(text=rack_of(hosts, f"  {name}: {{{command}, {entry}}}\n", **rack))


def install_planes(folder: Path) -> None:
    """The rotor, as the wheel that it is, and two of the tests."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", folder, EXAMPLES / "rotor-plane"], check=True, timeout=120)
    own = {"idle": IDLE, "one_at_a_time": ONE_AT_A_TIME, "careful": CAREFUL, "wary": WARY, "by_demand": BY_DEMAND}
    for name, text in own.items():
        install_plane(folder, name, text)


def install_plane(folder: Path, name: str, text: str) -> None:
    """Where daemons with `folder` on their path find it by its name; `text` defines it, in capitals."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}_plane.py").write_text(text)
    info = folder / f"{name}_plane-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-plane\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[hwd.planes]\n{name} = {name}_plane:{name.upper()}\n")


async def start(lab: "Lab", *words: str) -> str:
    """Start a job; its id."""
    said = await lab.hwd("job", "run", "--no-follow", "--json", *words)
    assert said.status == 0, said
    id: str = said.json["id"]
    return id


async def at_step(lab: "Lab", job: str, step: int) -> None:
    """Wait until rank 0 has written so many lines."""

    async def look() -> bool | None:
        return True if len(await lines(lab, job, 0)) > step else None

    await lab.found(f"job {job} is at step {step}", look)


async def lines(lab: "Lab", job: str, rank: int) -> list[str]:
    """What a rank has written, as far as it is known."""
    path = lab.data / "jobs" / job / f"rank{rank}.log"
    return path.read_text().splitlines() if path.exists() else []


async def until_job(lab: "Lab", job: str, what: str, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        now: dict[str, Any] | None = await lab.get(f"/api/v1/jobs/{job}")
        return now if now is not None and holds(now) else None

    return await lab.found(f"job {job} {what}", look, 60)


async def ended(lab: "Lab", job: str) -> dict[str, Any]:
    return await until_job(lab, job, "ends", lambda now: now["ended_wall_ns"] is not None)


async def light_at(lab: "Lab", job: str, target: str) -> None:
    await until_job(lab, job, f"has light at {target}", lambda now: (now["at"], now["moving"]) == (target, ""))


async def is_waiting(lab: "Lab", job: str, rank: int) -> None:
    await until_job(lab, job, f"has a rank {rank} that waits", lambda now: now["ranks"][rank]["state"] == "waiting")


def assert_holds_nothing(now: dict[str, Any]) -> None:
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
