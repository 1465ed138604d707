"""Jobs on a rack of processes: ranks that send over light that their control plane moves, and what shows that."""

import getpass
import os
import signal
import sys

import pytest

from .conftest import Lab
from .job_rack import (
    RING,
    assert_holds_nothing,
    at_step,
    ended,
    lines,
    rack_of,
    running,
    start,
)

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(180)]
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

EXPERTS = """
import os, socket, sys, threading
from pathlib import Path
from hwd_agents.shim import Rank

GROUP, SIZE, STEPS = "ep" + str(int(os.environ["HWD_RANK"]) // 2), 100_000, 40
with Rank.from_environment() as rank:
    here = rank.groups[GROUP].index(rank.number)
    other = rank.groups[GROUP][1 - here]
    parts = [SIZE, SIZE]
    parts[here] = 0
    while GROUP == "ep0" and not Path(__file__).with_name("go").exists():
        threading.Event().wait(0.05)
    for step in range(STEPS):
        with rank.operation(GROUP, "all-to-all", size_bytes=SIZE, parts=parts, within_s=60):
            ports = [dict(end.split(".") for end in link.split("<->")) for link in rank.links]
            host = {n: rank.places[n].host for n in rank.groups[GROUP]}
            link = next(one for one in ports if set(one) == set(host.values()))
            own, peer = (rank.places[n].optical[link[host[n]]] for n in (rank.number, other))
            with socket.create_server((own, 29_500)) as listener:
                def send():
                    while True:
                        try:
                            to = socket.create_connection((peer, 29_500), 1, source_address=(own, 0))
                            break
                        except OSError:
                            threading.Event().wait(0.01)
                    with to:
                        to.sendall(bytes(SIZE))
                sender = threading.Thread(target=send)
                sender.start()
                with listener.accept()[0] as one:
                    got = 0
                    while got < SIZE:
                        got += len(one.recv(65536))
                sender.join()
        print("step", step, flush=True)
"""
"""Two ranks of each group send each other the same over light; those of ep0 wait for a file before."""


async def test_region_goes_on_while_the_light_of_another_one_does_not_come(lab: Lab) -> None:
    rank = lab.folder / "rank.py"
    rank.write_text(EXPERTS)
    entry = (
        f"command: [{sys.executable}, {rank}], user: {getpass.getuser()}, hosts: [h0, h1, h2, h3], "
        "groups: {ep0: [0, 1], ep1: [2, 3]}, plane: mfabric layers=1 first=block, ready_within_s: 100"
    )
    await lab.up(text=rack_of(4, f"  experts: {{{entry}}}\n", electrical=True, switches=2))
    assert (await lab.hwd("fault", "h3.eth1", "unplug")).status == 0
    job = await start(lab, "experts")
    stuck = await lab.until("a region moves", lambda now: now["jobs"] and now["jobs"][0]["moving"])
    (lab.folder / "go").touch()
    await at_step(lab, job, 39)
    now = await lab.get(f"/api/v1/jobs/{job}")
    assert (now["moving"], now["at"]) == (stuck["jobs"][0]["moving"], "light2")
    assert await lines(lab, job, 2) == []
    assert (await lab.hwd("fault", "h3.eth1", "clear")).status == 0
    found = await ended(lab, job)
    assert (found["state"], found["why"]) == ("succeeded", "")
    verified = await lab.hwd("job", "verify", job)
    assert verified.status == 0, verified
    assert "160 operations" in verified.out
    light: dict[str, str] = {}
    for one in await lab.documents("reconfiguration.started"):
        light |= {switch["switch"]: one["reconfiguration"] for switch in one["moves"]}
    assert len(light) == 2
    assert len({*light.values()}) == 2, "each region moved at its own switch"


@pytest.mark.slow
async def test_ranks_reduce_over_a_plane_of_a_stranger_while_agent_and_daemon_are_killed(lab: Lab, planes: str) -> None:
    lab.environment["PYTHONPATH"] = planes
    train = f"{{command: {RING}, user: {getpass.getuser()}, hosts: [h0, h1, h2, h3], arguments: true"
    text = rack_of(4, f"  train: {train}, plane: rotor period_s=0.2}}\n")
    daemon = await lab.up(text=text)
    job = await start(lab, "train", "--", "--steps", "90")
    await at_step(lab, job, 10)
    os.kill(lab.rack["hosts"]["h1"]["agent"], signal.SIGKILL)
    await at_step(lab, job, 30)
    assert await daemon.end(signal.SIGKILL) == -signal.SIGKILL
    before = running(job)
    await lab.serve()
    await at_step(lab, job, 60)
    assert running(job) == before != []
    found = await ended(lab, job)
    assert (found["state"], found["why"]) == ("succeeded", "")
    for rank in range(4):
        wanted = [f"step {step}: each of 4096 sums is {6 + 4 * step}" for step in range(90)]
        assert await lines(lab, job, rank) == wanted
    verified = await lab.hwd("job", "verify", job)
    assert verified.status == 0, verified
    assert "360 operations" in verified.out
    switched = await lab.documents("job.switched")
    assert len({one["target"] for one in switched if not one["why"]}) == 3
    assert_holds_nothing(await lab.until("it is over", lambda now: not now["jobs"]))
    assert running(job) == []


@pytest.mark.slow
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


@pytest.mark.slow
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
