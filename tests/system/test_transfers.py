"""Transfers in a rack of processes: a rank claims over its agent's socket, and `hwd apply` keeps off its light."""

import asyncio
import sys

import pytest

from .conftest import CROSSED, STRAIGHT, Lab, Mosquitto, Program

pytestmark = pytest.mark.timeout(120)

RANK = """
import sys
from hwd_agents.transfers import Transfers
with Transfers(sys.argv[1], process="rank 3") as transfers:
    with transfers.transfer(["eth0"], phase="all-reduce 7", within_s=60.0):
        print("sending", flush=True)
        sys.stdin.readline()
print("done", flush=True)
"""


def socket_of(lab: Lab, host: str) -> str:
    return str(lab.folder / "run" / "lab" / f"{host}.transfers.sock")


async def rank(lab: Lab) -> Program:
    """A process of a job on h0 that has said that it is sending."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", RANK, socket_of(lab, "h0")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(20):
        assert await process.stdout.readline() == b"sending\n"
    program = Program(process, lab.folder / "rank.log")
    lab.programs.append(program)
    return program


def pairs(crossconnects: frozenset[str]) -> str:
    return f"ocs1:{','.join(sorted(crossconnects))}"


@pytest.mark.slow
async def test_apply_keeps_off_a_rank_that_sends_and_goes_when_that_has_ended(lab: Lab, mosquitto: Mosquitto) -> None:
    await lab.up(mqtt=mosquitto.url)
    await lab.ok("apply", pairs(STRAIGHT), "--no-ready")
    sending = await rank(lab)
    refused = await lab.hwd("apply", pairs(CROSSED), "--no-ready")
    assert refused.status == 3
    assert all(part in refused.err for part in ("rank 3", f"pid {sending.pid}", "all-reduce 7", "--drain-within"))
    assert await lab.light() == STRAIGHT
    status = await lab.hwd("status")
    assert "rank 3" in status.out
    draining = lab.go("apply", pairs(CROSSED), "--no-ready", "--drain-within", "30")
    await lab.until("the apply waits", lambda now: any(one.get("drained_by") for one in now["transfers"]))
    assert await lab.light() == STRAIGHT
    assert sending.process.stdin is not None
    sending.process.stdin.write(b"\n")
    assert (await draining).status == 0
    assert await lab.light() == CROSSED
    metrics = await lab.get("/metrics")
    assert 'hwd_transfers_in_flight{host="h0"} 0.0' in metrics
