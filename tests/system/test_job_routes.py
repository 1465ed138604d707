"""Routes of hosts that the control plane of a job sets, on a rack of processes."""

import asyncio
import getpass
import os
import signal
import sys

import pytest

from .conftest import Lab
from .job_rack import assert_holds_nothing, at_step, ended, install_plane, lines, rack_of, start

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(180)]

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

LATE = """
from hwd.model.plane import Grant, Intent, PlaneKind, Route, StaticRoute
from hwd.planes import Gathering

class Late:
    def targets(self, job, view):
        self.gathering, self.ports = Gathering(job.groups), {str(one): one for one in view.ports}
        return {}

    def on(self, event):
        if isinstance(event, Intent) and (ready := self.gathering.come(event)):
            to, port = self.ports["h1.eth0"], self.ports["h0.eth0"]
            yield Route(routes=(StaticRoute(host="h0", to=to, port=port),))
            yield Grant(ranks=ready)

LATE = PlaneKind(make=lambda arguments: Late())
"""
"""Sets a route of h0, and then lets all ranks go, in one answer."""
LAST_ASKS = """
import threading
from pathlib import Path
from hwd_agents.shim import Rank

with Rank.from_environment() as rank:
    while rank.number == 1 and not Path(__file__).with_name("go").exists():
        threading.Event().wait(0.05)
    with rank.operation("world", "barrier", within_s=60):
        print("in its block", flush=True)
"""


@pytest.mark.slow
async def test_routes_of_a_plane_are_set_before_ranks_go_outlive_the_daemon_and_are_gone_in_the_end(lab: Lab) -> None:
    install_plane(lab.folder / "planes", "routing", ROUTING)
    lab.environment["PYTHONPATH"] = str(lab.folder / "planes")
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


@pytest.mark.slow
async def test_ranks_that_wait_behind_a_route_wait_for_it_over_a_killed_daemon(lab: Lab) -> None:
    install_plane(lab.folder / "planes", "late", LATE)
    lab.environment["PYTHONPATH"] = str(lab.folder / "planes")
    program = lab.folder / "last_asks.py"
    program.write_text(LAST_ASKS)
    entry = f"command: [{sys.executable}, {program}], user: {getpass.getuser()}, hosts: [h0, h1], plane: late"
    daemon = await lab.up(text=f"{rack_of(2, f'  go: {{{entry}}}', electrical=True)}\nhost_actions: [route]\n")
    job = await start(lab, "go")
    await is_waiting(lab, job, 0)
    agent = lab.rack["hosts"]["h0"]["agent"]
    os.kill(agent, signal.SIGSTOP)
    try:
        (lab.folder / "go").touch()
        await is_waiting(lab, job, 1)
        await daemon.end(signal.SIGKILL)
        await lab.serve()
        await lab.until("h1 has reported", lambda now: [host["up"] for host in now["hosts"]] == [False, True])
        await asyncio.sleep(3)  # for rank 1 to ask again
        assert await lines(lab, job, 1) == []
    finally:
        os.kill(agent, signal.SIGCONT)
    found = await ended(lab, job)
    assert (found["state"], found["why"]) == ("succeeded", "")


async def is_waiting(lab: Lab, job: str, rank: int) -> None:
    async def look() -> bool | None:
        now = await lab.get(f"/api/v1/jobs/{job}")
        return True if now is not None and now["ranks"][rank]["state"] == "waiting" else None

    await lab.found(f"rank {rank} waits", look)
