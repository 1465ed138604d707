"""Jobs on a rack of processes while light, agents and daemon fail. In virtual time: `tests/jobs/test_job_run.py`."""

import asyncio
import getpass
import os
import signal
from typing import Any

import pytest

from .conftest import Lab
from .job_rack import (
    HELD_AT,
    MOVING,
    RANK,
    RANKS,
    RING,
    assert_holds_nothing,
    at_step,
    ended,
    install_plane,
    is_waiting,
    light_at,
    lines,
    rack_of,
    ranks_up,
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
TURNS = f"""{RANKS}
with Rank.from_environment() as rank:
    group = f"g{{rank.number}}"
    if rank.number == 1:
        until("second")
    with rank.operation(group, "all-reduce", within_s=60):
        print("in its block", flush=True)
        try:
            with rank.operation(group, "all-reduce", within_s=60):
                print("in two blocks", flush=True)
        except RefusedError as error:
            print("refused:", error, flush=True)
        until(f"leave{{rank.number}}")
    print("has left its block", flush=True)
    until("end")
"""
"""Each rank sends when the other one does not; files say when it goes on."""
EXCHANGES = f"""{RANKS}
SIZE, STEPS, BEFORE_GO, BEFORE_END, OTHER_WAY = 65536, 5, 1, 2, 4
with Rank.from_environment() as rank, socket.create_server(("", 29_500)) as listener:
    meet(rank)
    for step in range(STEPS):
        if step == BEFORE_GO and rank.number == 0:
            until("asked")
        with rank.operation("world", "all-reduce", size_bytes=SIZE, within_s=30):
            print("step", step, flush=True)
            exchange(listener, *addresses(rank, "electrical" if step == OTHER_WAY else "optical"), SIZE)
            if step == BEFORE_END:
                until("leave")
    meet(rank)
"""
"""Two ranks send each other their tensors, the last ones another way. Rank 0 waits for a file before operation 1, and
both wait for one before the end of operation 2.
"""


async def test_end_of_an_operation_reaches_its_plane_over_a_killed_daemon(lab: Lab, planes: str) -> None:
    daemon = await ranks_up(lab, TURNS, "plane: one_at_a_time, groups: {g0: [0], g1: [1]}", planes=planes)
    job = await start(lab, "goes")
    await at_step(lab, job, 1)
    assert "all-reduce 0 of g0 has not ended: one at a time" in (await lines(lab, job, 0))[1]
    (lab.folder / "second").touch()
    await is_waiting(lab, job, 1)
    await daemon.end(signal.SIGKILL)
    await lab.serve()
    await lab.until("the job is there again", lambda now: [one for one in now["jobs"] if one["state"] == "running"])
    (lab.folder / "leave0").touch()

    async def look() -> bool | None:
        return True if "in its block" in await lines(lab, job, 1) else None

    await lab.found("rank 1 sends", look)
    for name in ("leave1", "end"):
        (lab.folder / name).touch()
    assert (await ended(lab, job))["state"] == "succeeded"


async def test_plane_falls_back_to_the_giant_ring_and_comes_back_over_a_killed_daemon(lab: Lab, planes: str) -> None:
    daemon = await ranks_up(lab, RANK, "plane: careful, fallback: true", name="held", planes=planes)
    await lab.ok("fault", "ocs1", "deny", "code=SROF", "text=Equipment failure")
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
    await lab.ok("job", "stop", job)
    switched = [
        (one["target"], "Equipment failure" in one["why"], one.get("fallback", ""))
        for one in await lab.documents("job.switched")
    ]
    assert switched == [("own", True, ""), ("fallback", False, "its own light was not there"), ("own", False, "")]
    await lab.ok("job", "verify", job)


async def test_agent_that_comes_back_after_the_daemon_holds_the_light_up(lab: Lab, planes: str) -> None:
    lab.environment["PYTHONPATH"] = planes
    train = f"{{command: {RING}, user: {getpass.getuser()}, hosts: [h0, h1, h2, h3], arguments: true"
    daemon = await lab.up(text=rack_of(4, f"  train: {train}, plane: rotor period_s=0.02}}\n"))
    job = await start(lab, "train", "--", "--steps", "24")
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
    daemon = await ranks_up(lab, RANK, "plane: wary, ready_within_s: 2", planes=planes)
    job = await start(lab, "goes")
    await at_step(lab, job, 3)
    assert await lab.documents("job.failure") == [], "its first light was its own doing"
    await lab.ok("fault", "h0.eth0", "cut", "strand=both")
    await light_at(lab, job, "eth1")
    await at_step(lab, job, len(await lines(lab, job, 0)) + 3)
    told = await lab.documents("job.failure")
    lost = {port for one in told for port in one["ports"]}
    assert lost, "one end at least: the plane leaves the link as soon as it hears of the first one"
    assert lost <= {"h0.eth0", "h1.eth0"}, "an end that is lit has no link either where the other one is dark"
    assert {one["why"] for one in told} == {"it has no carrier, though the target of its plane lights it"}
    assert await daemon.end(signal.SIGKILL) == -signal.SIGKILL
    await lab.serve()
    await lab.ok("fault", "h0.eth0", "clear")
    await light_at(lab, job, "eth0")

    async def look() -> bool | None:
        told = [one for one in await lab.documents("job.failure") if one["is_over"]]
        return True if {port for one in told for port in one["ports"]} >= lost else None

    await lab.found("its plane is told that the link is back", look)
    await lab.ok("job", "stop", job)


async def test_ring_with_a_cut_fibre_falls_back_to_what_is_left_of_it_and_comes_back(lab: Lab) -> None:
    planes = lab.folder / "planes"
    install_plane(planes, "cut_off", CUT_OFF)
    lab.environment["PYTHONPATH"] = str(planes)
    more = "hosts: [h0, h1, h2], plane: cut_off, fallback: true, ready_within_s: 2, arguments: true"
    await lab.up(text=rack_of(3, f"  train: {{command: {RING}, user: {getpass.getuser()}, {more}}}\n"))
    job = await start(lab, "train", "--", "--steps", "100000", "--numbers", "6")
    await at_step(lab, job, 3)
    await lab.ok("fault", "h0.eth1", "cut", "strand=both")
    await light_at(lab, job, "fallback")
    now = await lab.get("/api/v1/status")
    assert [one["link"] for one in now["links"] if one["carrier"]] == ["h0.eth0<->h2.eth1", "h1.eth1<->h2.eth0"]
    await lab.ok("fault", "h0.eth1", "clear")
    await light_at(lab, job, "own")
    await at_step(lab, job, len(await lines(lab, job, 0)) + 3)
    await lab.ok("job", "stop", job)
    whys = [one["fallback"] for one in await lab.documents("job.switched") if one.get("fallback")]
    assert whys[0] in ("h0.eth1, h1.eth0", "h0.eth1", "h1.eth0"), "both ends, or the first that was seen to be dark"


async def test_plane_hears_what_ranks_announce_and_lights_for_it_over_a_killed_daemon(lab: Lab, planes: str) -> None:
    daemon = await ranks_up(lab, RANK, "plane: by_demand", name="heavy", planes=planes)
    job = await start(lab, "heavy")
    await light_at(lab, job, "eth1")
    assert await daemon.end(signal.SIGKILL) == -signal.SIGKILL
    await lab.serve()
    await at_step(lab, job, len(await lines(lab, job, 0)) + 20)
    await light_at(lab, job, "eth1")
    await lab.ok("job", "stop", job)


async def test_agent_that_was_killed_before_a_go_and_before_an_end_is_no_breach_and_one_of_the_same_run_is_found(
    lab: Lab,
) -> None:
    """What the peer sent comes before the next agent counts first."""
    await ranks_up(lab, EXCHANGES, "plane: static topology=ring", electrical=True)
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
ROUTED = f"""{RANKS}
with Rank.from_environment() as rank:
    to = rank.places[2].optical["eth0"]
    for step in range(5):
        with rank.operation("world", "all-reduce", within_s=60):
            found = subprocess.run(["ip", "route", "show", to], capture_output=True, text=True, check=True).stdout
            print(step, "; ".join(line for line in found.splitlines() if "proto static" in line), flush=True)
        if step == 2:
            until("go")
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
LAST_ASKS = f"""{RANKS}
with Rank.from_environment() as rank:
    if rank.number == 1:
        until("go")
    with rank.operation("world", "barrier", within_s=60):
        print("in its block", flush=True)
"""


@pytest.mark.slow
async def test_routes_of_a_plane_are_set_before_ranks_go_outlive_the_daemon_and_are_gone_in_the_end(lab: Lab) -> None:
    planes = lab.folder / "planes"
    install_plane(planes, "routing", ROUTING)
    daemon = await ranks_up(lab, ROUTED, "plane: routing", hosts=4, planes=planes, actions="route")
    job = await start(lab, "goes")
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
    planes = lab.folder / "planes"
    install_plane(planes, "late", LATE)
    daemon = await ranks_up(lab, LAST_ASKS, "plane: late", planes=planes, electrical=True, actions="route")
    job = await start(lab, "goes")
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
