"""Jobs on a rack of processes: ranks that send over light that their control plane moves, whatever is killed or cut."""

import getpass
import os
import signal
import sys

import pytest

from .conftest import Lab
from .job_rack import (
    HELD_AT,
    RANK,
    RING,
    assert_holds_nothing,
    at_step,
    ended,
    install_plane,
    lines,
    rack_of,
    running,
    start,
)

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(180)]
CUT_OFF = """
from hwd.model.plane import Applied, Done, Failure, Fallback, Grant, Intent, NotReady, PlaneKind, Switch, Target, Tick
from hwd.planes import Gathering

class CutOff:
    def targets(self, job, view):
        self.gathering, self.ready, self.sending = Gathering(job.groups), [], set()
        self.lit, self.moving, self.why, self.at_s, self.again_s = None, None, "", 0.0, 0.0
        return {"own": Target(links=view.topology("ring rail=0"))}

    def on(self, event):
        match event:
            case Intent():
                self.ready += self.gathering.come(event)
            case Done(rank=rank):
                self.sending.discard(rank)
            case Tick(at_s=at_s):
                self.at_s = at_s
            case Failure(ports=ports) if self.lit == "own":
                self.why = ", ".join(map(str, ports))
            case Applied(target=target):
                self.lit, self.moving, self.again_s = target, None, self.at_s + 1
            case NotReady(why=why):
                self.lit, self.moving, self.why = None, None, why
        if self.moving:
            return
        if self.lit is None or self.why or (self.lit == "fallback" and self.at_s >= self.again_s):
            if not self.sending:
                self.moving, why, self.why = "fallback" if self.why else "own", self.why, ""
                yield Fallback(why=why) if why else Switch(target="own")
        elif self.ready:
            ready, self.ready = self.ready, []
            self.sending.update(ready)
            yield Grant(ranks=tuple(ready))

CUT_OFF = PlaneKind(make=lambda arguments: CutOff())
"""
"""A plane that falls back when it hears of a failure, and tries its own light again each second."""
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


async def test_ranks_reduce_over_a_plane_of_a_stranger_while_agent_and_daemon_are_killed(lab: Lab, planes: str) -> None:
    lab.environment["PYTHONPATH"] = planes
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


async def test_end_of_an_operation_reaches_its_plane_over_a_killed_daemon(lab: Lab, planes: str) -> None:
    files = lab.folder / "files"
    files.mkdir()
    lab.environment["PYTHONPATH"] = planes
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


async def test_plane_falls_back_to_the_giant_ring_and_comes_back_over_a_killed_daemon(lab: Lab, planes: str) -> None:
    rank = lab.folder / "rank.py"
    rank.write_text(RANK)
    lab.environment["PYTHONPATH"] = planes
    more = f"user: {getpass.getuser()}, hosts: [h0, h1], plane: careful, fallback: true"
    daemon = await lab.up(text=rack_of(2, f"  goes: {{command: [{sys.executable}, {rank}, held], {more}}}\n"))
    assert (await lab.hwd("fault", "ocs1", "deny", "code=SROF", "text=Equipment failure")).status == 0
    job = await start(lab, "goes")
    await at_step(lab, job, HELD_AT - 1)  # the plane tries its own light again when they go on
    assert "light at fallback" in (await lab.hwd("job", "show", job)).out
    ring = [one["what"] for one in await lab.documents("reconfiguration.started")][-1]
    assert ring.endswith("to fallback")
    assert await daemon.end(signal.SIGKILL) == -signal.SIGKILL
    await lab.serve()
    (lab.folder / "go").touch()
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


async def test_agent_that_comes_back_after_the_daemon_holds_the_light_up(lab: Lab, planes: str) -> None:
    lab.environment["PYTHONPATH"] = planes
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


async def test_plane_hears_of_a_cut_fibre_leaves_it_and_goes_back_when_it_is_mended(lab: Lab, planes: str) -> None:
    rank = lab.folder / "rank.py"
    rank.write_text(RANK)
    lab.environment["PYTHONPATH"] = planes
    more = f"user: {getpass.getuser()}, hosts: [h0, h1], plane: wary, ready_within_s: 2"
    daemon = await lab.up(text=rack_of(2, f"  goes: {{command: [{sys.executable}, {rank}, goes], {more}}}\n"))
    job = await start(lab, "goes")
    await at_step(lab, job, 3)
    assert await lab.documents("job.failure") == [], "its first light was its own doing"
    assert (await lab.hwd("fault", "h0.eth0", "cut", "strand=both")).status == 0
    await light_at(lab, job, "eth1")
    await at_step(lab, job, len(await lines(lab, job, 0)) + 3)
    told = await lab.documents("job.failure")
    lost = {port for one in told for port in one["ports"]}
    assert lost, "one end at least: the plane leaves the link as soon as it hears of the first one"
    assert lost <= {"h0.eth0", "h1.eth0"}, "an end that is lit has no link either where the other one is dark"
    assert {one["why"] for one in told} == {"it lost its carrier, and its light stands"}
    assert await daemon.end(signal.SIGKILL) == -signal.SIGKILL
    await lab.serve()
    assert (await lab.hwd("fault", "h0.eth0", "clear")).status == 0
    await light_at(lab, job, "eth0")

    async def look() -> bool | None:
        told = [one for one in await lab.documents("job.failure") if one["is_over"]]
        return True if {port for one in told for port in one["ports"]} >= lost else None

    await lab.found("its plane is told that the link is back", look)
    assert (await lab.hwd("job", "stop", job)).status == 0


async def test_ring_with_a_cut_fibre_falls_back_to_what_is_left_of_it_and_comes_back(lab: Lab) -> None:
    planes = lab.folder / "planes"
    install_plane(planes, "cut_off", CUT_OFF)
    lab.environment["PYTHONPATH"] = str(planes)
    more = "hosts: [h0, h1, h2], plane: cut_off, fallback: true, ready_within_s: 2, arguments: true"
    await lab.up(text=rack_of(3, f"  train: {{command: {RING}, user: {getpass.getuser()}, {more}}}\n"))
    job = await start(lab, "train", "--", "--steps", "100000", "--numbers", "6")
    await at_step(lab, job, 3)
    assert (await lab.hwd("fault", "h0.eth1", "cut", "strand=both")).status == 0
    await light_at(lab, job, "fallback")
    now = await lab.get("/api/v1/status")
    assert [one["link"] for one in now["links"] if one["carrier"]] == ["h0.eth0<->h2.eth1", "h1.eth1<->h2.eth0"]
    assert (await lab.hwd("fault", "h0.eth1", "clear")).status == 0
    await light_at(lab, job, "own")
    await at_step(lab, job, len(await lines(lab, job, 0)) + 3)
    assert (await lab.hwd("job", "stop", job)).status == 0
    whys = [one["fallback"] for one in await lab.documents("job.switched") if one.get("fallback")]
    assert whys[0] in ("h0.eth1, h1.eth0", "h0.eth1", "h1.eth0"), "both ends, or the first that was seen to be dark"


async def test_rank_that_waited_too_long_for_light_that_is_on_its_way_says_so(lab: Lab, planes: str) -> None:
    rank = lab.folder / "rank.py"
    rank.write_text(RANK)
    lab.environment["PYTHONPATH"] = planes
    more = f"user: {getpass.getuser()}, hosts: [h0, h1], plane: wary, answer_within_s: 2, ready_within_s: 5"
    await lab.up(text=rack_of(2, f"  goes: {{command: [{sys.executable}, {rank}, goes], {more}}}\n"))
    job = await start(lab, "goes")
    await at_step(lab, job, 3)
    assert (await lab.hwd("fault", "h0.eth0", "cut", "strand=both")).status == 0
    why = (await ended(lab, job))["why"]
    assert "waited 2 s for plane wary to answer all-reduce" in why
    assert "all its ranks came to it; its light is on the way to eth0" in why


async def test_plane_hears_what_ranks_announce_and_lights_for_it_over_a_killed_daemon(lab: Lab, planes: str) -> None:
    rank = lab.folder / "rank.py"
    rank.write_text(RANK)
    lab.environment["PYTHONPATH"] = planes
    more = f"user: {getpass.getuser()}, hosts: [h0, h1], plane: by_demand"
    daemon = await lab.up(text=rack_of(2, f"  heavy: {{command: [{sys.executable}, {rank}, heavy], {more}}}\n"))
    job = await start(lab, "heavy")
    await light_at(lab, job, "eth1")
    assert await daemon.end(signal.SIGKILL) == -signal.SIGKILL
    await lab.serve()
    await at_step(lab, job, len(await lines(lab, job, 0)) + 20)
    await light_at(lab, job, "eth1")
    assert (await lab.hwd("job", "stop", job)).status == 0


async def light_at(lab: Lab, job: str, target: str) -> None:
    async def look() -> bool | None:
        now = await lab.get(f"/api/v1/jobs/{job}")
        return True if now is not None and (now["at"], now["moving"]) == (target, "") else None

    await lab.found(f"the light is at {target}", look, 60)
