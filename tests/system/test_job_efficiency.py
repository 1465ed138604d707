"""Efficiency of jobs on a rack of processes, as their hosts count it."""

import getpass
import re
import sys

import pytest

from .conftest import Lab
from .job_rack import RING, ended, rack_of, start

pytestmark = [pytest.mark.kernel, pytest.mark.slow, pytest.mark.timeout(180)]
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
