"""Jobs on a rack of processes: ranks that send over light that their control plane moves, and what shows that."""

import getpass
import os
import re
import signal
import sys

import pytest

from .conftest import Lab
from .job_rack import RANKS, RING, assert_holds_nothing, at_step, ended, lines, rack_of, ranks_up, running, start

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(180)]
MEETING = """
from hwd_agents.shim import Rank, meet
with Rank.from_environment() as rank:
    meet(rank, within_s=3)
    print("met", flush=True)
"""
OTHER_WAY = f"""{RANKS}
SIZE = 500_000
with Rank.from_environment() as rank:
    meet(rank)
    own, peer = addresses(rank, "electrical" if sys.argv[-1] == "electrical" else "optical")
    with socket.create_server((own, 29_500)) as listener:
        meet(rank)
        size = 0 if sys.argv[-1] == "wait" else SIZE
        with rank.operation("world", "all-reduce", size_bytes=size, within_s=60):
            print("in its block", flush=True)
            if sys.argv[-1] == "wait":
                until("go")
                sys.exit()
            exchange(listener, own, peer, SIZE)
        meet(rank)
"""

EXPERTS = f"""{RANKS}
GROUP, SIZE, STEPS = "ep" + str(int(os.environ["HWD_RANK"]) // 2), 100_000, 12
with Rank.from_environment() as rank:
    here = rank.groups[GROUP].index(rank.number)
    other = rank.groups[GROUP][1 - here]
    parts = [SIZE, SIZE]
    parts[here] = 0
    if GROUP == "ep0":
        until("go")
    for step in range(STEPS):
        with rank.operation(GROUP, "all-to-all", size_bytes=SIZE, parts=parts, within_s=60):
            ports = [dict(end.split(".") for end in link.split("<->")) for link in rank.links]
            host = {{n: rank.places[n].host for n in rank.groups[GROUP]}}
            link = next(one for one in ports if set(one) == set(host.values()))
            own, peer = (rank.places[n].optical[link[host[n]]] for n in (rank.number, other))
            with socket.create_server((own, 29_500)) as listener:
                exchange(listener, own, peer, SIZE)
        print("step", step, flush=True)
"""


async def test_region_goes_on_while_the_light_of_another_one_does_not_come(lab: Lab) -> None:
    entry = "groups: {ep0: [0, 1], ep1: [2, 3]}, plane: mfabric layers=1 first=block, ready_within_s: 100"
    await ranks_up(lab, EXPERTS, entry, name="experts", hosts=4, electrical=True, switches=2)
    await lab.fault("unplug", port="h3.eth1")
    job = await start(lab, "experts")
    stuck = await lab.until("a region moves", lambda now: now["jobs"] and now["jobs"][0]["moving"])
    (lab.folder / "go").touch()
    await at_step(lab, job, 11)
    now = await lab.get(f"/api/v1/jobs/{job}")
    assert (now["moving"], now["at"]) == (stuck["jobs"][0]["moving"], "light2")
    assert await lines(lab, job, 2) == []
    await lab.fault("clear", port="h3.eth1")
    found = await ended(lab, job)
    assert (found["state"], found["why"]) == ("succeeded", "")
    verified = await lab.ok("job", "verify", job)
    assert "48 operations" in verified.out
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
    verified = await lab.ok("job", "verify", job)
    assert "360 operations" in verified.out
    switched = await lab.documents("job.switched")
    assert len({one["target"] for one in switched if not one["why"]}) == 3
    assert_holds_nothing(await lab.until("it is over", lambda now: not now["jobs"]))
    assert running(job) == []


@pytest.mark.slow
async def test_rendezvous_goes_over_the_packet_switch_and_says_where_its_fibre_is_cut(lab: Lab) -> None:
    await ranks_up(lab, MEETING, "plane: static topology=ring", name="meets", hosts=3, electrical=True)
    said = await lab.ok("job", "run", "meets")
    await lab.ok("fault", "h2.eth2", "cut", "strand=both")
    said = await lab.hwd("job", "run", "meets")
    assert said.status == 1
    parts = [
        ("rank 2 on h2: cannot meet rank 0 on h0", "from 10.5.0.3 (eth2) to 10.5.0.1:29400 (eth2)"),
        ("rank 2 on h2: did not come to rank 0 at 10.5.0.1:29400",),
    ]
    assert any(all(part in said.err for part in one) for one in parts), said.err  # whichever of them ends first


@pytest.mark.slow
async def test_verification_finds_light_that_was_taken_and_bytes_that_went_another_way(lab: Lab) -> None:
    await ranks_up(lab, OTHER_WAY, "plane: static topology=ring, arguments: true", name="away", electrical=True)
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
    await lab.ok("fault", "h0.eth0", "cut", "strand=both")
    await lab.until("the link is down", lambda now: not now["hosts"][0]["ports"]["eth0"]["carrier"])
    (lab.folder / "go").touch()
    await ended(lab, job)
    said = await lab.hwd("job", "verify", job)
    assert said.status == 1
    assert "dark: rank 0 on h0, all-reduce 0 of world: h0.eth0 lost its carrier" in said.out
    assert (await lab.hwd("job", "verify", "nosuch")).status == 2


SHUFFLE = f"""{RANKS}
PART = 500_000
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
                        send("", next(iter(rank.places[other].optical.values())), PART)
                for one in takes:
                    one.join()
            print("step", step, flush=True)
        meet(rank)
"""


@pytest.mark.slow
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
    await lab.ok("job", "stop", job)
    assert await look() is None
    said = await lab.ok("job", "efficiency", job, "--json")
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
