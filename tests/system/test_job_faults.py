"""Jobs on a rack of processes while light, agents and daemon fail. In virtual time: `tests/jobs/test_job_run.py`."""

import getpass
import os
import signal
import sys
from typing import Any

import pytest

from .conftest import Lab, Program
from .job_rack import (
    HELD_AT,
    MOVING,
    RANK,
    RING,
    at_step,
    ended,
    install_plane,
    lines,
    rack_of,
    start,
)

pytestmark = [pytest.mark.kernel, pytest.mark.slow, pytest.mark.timeout(180)]
CUT_OFF = f"""{MOVING}
class CutOff(Moving):
    wanted = "own"

    def lights(self, job, view):
        return {{"own": Target(links=view.topology("ring rail=0"))}}

    def hear(self, event):
        match event:
            case Failure(ports=ports) if self.lit == "own":
                self.wanted, self.why = "fallback", ", ".join(map(str, ports))
            case NotReady(why=why):
                self.wanted, self.why = "fallback", why
            case Applied():
                self.again_s = self.at_s + 1
            case Tick() if self.lit == "fallback" and self.at_s >= self.again_s:
                self.wanted = "own"

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
EXCHANGES = """
import socket, sys, threading
from pathlib import Path
from hwd_agents.shim import Rank, meet

SIZE, STEPS, BEFORE_GO, BEFORE_END, OTHER_WAY = 65536, 5, 1, 2, 4

def until(name):
    while not Path(sys.argv[1], name).exists():
        threading.Event().wait(0.01)

def exchange(rank, way):
    own, peer = (next(iter(getattr(rank.places[n], way).values())) for n in (rank.number, 1 - rank.number))
    with socket.create_connection((peer, 29_500), source_address=(own, 0)) as to:
        to.sendall(bytes(SIZE))
        with listener.accept()[0] as one:
            got = 0
            while got < SIZE:
                got += len(one.recv(65536))

with Rank.from_environment() as rank, socket.create_server(("", 29_500)) as listener:
    meet(rank)
    for step in range(STEPS):
        if step == BEFORE_GO and rank.number == 0:
            until("asked")
        with rank.operation("world", "all-reduce", size_bytes=SIZE, within_s=30):
            print("step", step, flush=True)
            exchange(rank, "electrical" if step == OTHER_WAY else "optical")
            if step == BEFORE_END:
                until("leave")
    meet(rank)
"""
"""Two ranks send each other their tensors, the last ones another way. Rank 0 waits for a file before operation 1, and
both wait for one before the end of operation 2.
"""


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
    daemon = await ranks_up(lab, planes, "held", "careful, fallback: true")
    assert (await lab.hwd("fault", "ocs1", "deny", "code=SROF", "text=Equipment failure")).status == 0
    job = await start(lab, "held")
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
    daemon = await ranks_up(lab, planes, "goes", "wary, ready_within_s: 2")
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
    assert {one["why"] for one in told} == {"it has no carrier, though the target of its plane lights it"}
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


async def test_plane_hears_what_ranks_announce_and_lights_for_it_over_a_killed_daemon(lab: Lab, planes: str) -> None:
    daemon = await ranks_up(lab, planes, "heavy", "by_demand")
    job = await start(lab, "heavy")
    await light_at(lab, job, "eth1")
    assert await daemon.end(signal.SIGKILL) == -signal.SIGKILL
    await lab.serve()
    await at_step(lab, job, len(await lines(lab, job, 0)) + 20)
    await light_at(lab, job, "eth1")
    assert (await lab.hwd("job", "stop", job)).status == 0


async def ranks_up(lab: Lab, planes: str, what: str, plane: str) -> Program:
    """A rack of two hosts with the job of this name, whose ranks do so over this plane. Returns its daemon."""
    rank = lab.folder / "rank.py"
    rank.write_text(RANK)
    lab.environment["PYTHONPATH"] = planes
    entry = f"command: [{sys.executable}, {rank}, {what}], user: {getpass.getuser()}, hosts: [h0, h1], plane: {plane}"
    return await lab.up(text=rack_of(2, f"  {what}: {{{entry}}}\n"))


async def light_at(lab: Lab, job: str, target: str) -> None:
    async def look() -> bool | None:
        now = await lab.get(f"/api/v1/jobs/{job}")
        return True if now is not None and (now["at"], now["moving"]) == (target, "") else None

    await lab.found(f"the light is at {target}", look, 60)


async def test_agent_that_was_killed_before_a_go_and_before_an_end_is_no_breach_and_one_of_the_same_run_is_found(
    lab: Lab,
) -> None:
    """What the peer sent comes before the next agent counts first."""
    rank = lab.folder / "rank.py"
    rank.write_text(EXCHANGES)
    more = f"user: {getpass.getuser()}, hosts: [h0, h1], plane: static topology=ring"
    jobs = f"  goes: {{command: [{sys.executable}, {rank}, {lab.folder}], {more}}}\n"
    await lab.up(text=rack_of(2, jobs, electrical=True))
    job = await start(lab, "goes")

    def waits(now: dict[str, Any]) -> bool:
        states = [(one["state"], one["operation"]) for job in now["jobs"] for one in job["ranks"]]
        return states[1:] == [("waiting", "all-reduce 1 of world, 65.536 kB")]

    await lab.until("rank 1 waits for rank 0", waits)
    agent = lab.rack["hosts"]["h1"]["agent"]
    os.kill(agent, signal.SIGSTOP)
    (lab.folder / "asked").touch()
    await at_step(lab, job, 1)
    os.kill(agent, signal.SIGKILL)
    await at_step(lab, job, 2)
    os.kill(lab.rack["hosts"]["h1"]["agent"], signal.SIGKILL)
    (lab.folder / "leave").touch()
    assert (await ended(lab, job))["state"] == "succeeded"
    said = await lab.hwd("job", "verify", job, "--json")
    (found,) = said.json
    found = {(one["kind"], one["rank"], one["operation"].partition(" of ")[0]) for one in found["breaches"]}
    assert found == {("bytes", rank, "all-reduce 4") for rank in (0, 1)}, said.out
