"""PyTorch in the ranks of jobs, over light that a control plane moves."""

import getpass
import importlib.util
import re
import subprocess
import sys
from collections import Counter

import pytest

from hwd.model.plane import Intent
from hwd.records.records import Records
from hwd_drivers.core.offload import InlineOffload

from .conftest import Lab
from .job_rack import EXAMPLES, assert_holds_nothing, ended, lines, rack_of, start

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="needs PyTorch: `make test-torch` installs it"
    ),
]

TRAIN = EXAMPLES / "torch-training" / "train.py"
EVERYWHERE = f"user: {getpass.getuser()}, hosts: [h0, h1, h2, h3]"
STEPS = 8


def losses(text: list[str]) -> list[float]:
    return [float(found[1]) for one in text if (found := re.fullmatch(r"step \d+: loss (\S+)", one))]


@pytest.fixture(scope="module")
def alone() -> list[float]:
    """The losses of one process without any backend."""
    command = [sys.executable, str(TRAIN), "--parallel", "none", "--steps", str(STEPS)]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    found = losses(said.stdout.splitlines())
    assert len(found) == STEPS
    return found


async def test_models_learn_over_turning_light_as_in_one_process(lab: Lab, planes: str, alone: list[float]) -> None:
    lab.environment["PYTHONPATH"] = planes
    entry = (
        f"{{command: [{sys.executable}, {TRAIN}], user: {getpass.getuser()}, hosts: [h0, h1, h2, h3], arguments: true"
    )
    jobs = f"  ring: {entry}, plane: static topology=ring}}\n  rotor: {entry}, plane: rotor period_s=0.2}}\n"
    await lab.up(text=rack_of(4, jobs, electrical=True))
    for name, parallel in (("ring", "fsdp"), ("rotor", "ddp")):
        job = await start(lab, name, "--", "--parallel", parallel, "--steps", str(STEPS))
        found = await ended(lab, job)
        assert (found["state"], found["why"]) == ("succeeded", "")
        for rank in range(4):
            assert losses(await lines(lab, job, rank)) == pytest.approx(alone, rel=1e-4)
        await lab.ok("job", "verify", job)


OPERATIONS = """
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from hwd_agents.pytorch import GroupOptions

dist.init_process_group("hwd", pg_options=GroupOptions(group="world"))
rank, ranks = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
dp, tp = mesh.get_group("dp"), mesh.get_group("tp")
over = dist.new_group([0, 1, 2, 3], pg_options=GroupOptions(over="electrical"))


def shared(value):
    return torch.full((4,), float(value))


def is_(found, wanted):
    wanted = torch.as_tensor(wanted, dtype=found.dtype).expand_as(found)
    assert torch.equal(found, wanted), (rank, found, wanted)


# what it brings, of each kind
one = shared(rank)
dist.all_reduce(one)
is_(one, 6)
one = shared(rank)
dist.all_reduce(one, op=dist.ReduceOp.AVG)
is_(one, 1.5)
one = torch.full((4,), rank - 5)
dist.all_reduce(one, op=dist.ReduceOp.AVG)
is_(one, -3)  # -14 / 4, towards zero as NCCL does
several = [shared(rank), shared(2 * rank)]
dist.all_reduce_coalesced(several)
is_(several[1], 12)
parts = [torch.empty(2) for _ in range(4)]
dist.all_gather(parts, torch.full((2,), float(rank)))
is_(torch.cat(parts), [0, 0, 1, 1, 2, 2, 3, 3])
whole = torch.empty(4, 2)
dist.all_gather_into_tensor(whole, torch.full((2,), float(rank)))
is_(whole.sum(dim=1), [0, 2, 4, 6])
part = torch.empty(2)
dist.reduce_scatter_tensor(part, torch.arange(8.0) + rank, op=dist.ReduceOp.AVG)
is_(part, [2 * rank + 1.5, 2 * rank + 2.5])
dist.reduce_scatter(part, [torch.full((2,), float(n)) for n in range(4)])
is_(part, 4 * rank)
got = torch.empty(4)
dist.all_to_all_single(got, torch.arange(4.0) + 10 * rank)
is_(got, [rank + 10 * n for n in range(4)])
gots = [torch.empty(1) for _ in range(4)]
dist.all_to_all(gots, [torch.full((1,), float(10 * rank + n)) for n in range(4)])
is_(torch.cat(gots), [rank + 10 * n for n in range(4)])
one = shared(rank)
dist.broadcast(one, src=2)
is_(one, 2)
one = shared(rank)
dist.reduce(one, dst=1, op=dist.ReduceOp.AVG)
if rank == 1:
    is_(one, 1.5)
parts = [torch.empty(1) for _ in range(4)] if rank == 3 else None
dist.gather(torch.full((1,), float(rank)), parts, dst=3)
if rank == 3:
    is_(torch.cat(parts), [0, 1, 2, 3])
part = torch.empty(1)
dist.scatter(part, [torch.full((1,), 7.0 * n) for n in range(4)] if rank == 0 else None, src=0)
is_(part, 7 * rank)
dist.barrier()
found = [None] * 4
dist.all_gather_object(found, {"rank": rank})
assert found == [{"rank": n} for n in range(4)]

# groups, by the dimension of their mesh
one = shared(rank)
dist.all_reduce(one, group=dp)
is_(one, 2 + 2 * (rank % 2))
one = shared(rank)
dist.all_reduce(one, group=tp)
is_(one, 1 + 4 * (rank // 2))
one = shared(rank)
dist.all_reduce(one, group=over)
is_(one, 6)

# a shift around the ring, in which all send first, or all receive first
for turn in range(3):
    came = torch.empty(1)
    send = dist.P2POp(dist.isend, torch.full((1,), float(rank + turn)), (rank + 1) % ranks)
    receive = dist.P2POp(dist.irecv, came, (rank - 1) % ranks)
    for work in dist.batch_isend_irecv([receive, send] if turn == 1 else [send, receive]):
        work.wait()
    is_(came, (rank - 1) % ranks + turn)
if rank == 0:
    dist.send(torch.ones(1), dst=3)
if rank == 3:
    dist.recv(came, src=0)
    is_(came, 1)

# calls return before they are over, and a callback has the result
work = dist.all_reduce(one, async_op=True)
doubled = work.get_future().then(lambda future: 2 * future.value()[0])
is_(doubled.wait(), 48)
assert work.is_completed() and work.is_success() and work.wait()
nested = dist.all_reduce(one, async_op=True).get_future().then(lambda future: dist.barrier())
try:
    nested.wait()
    raise AssertionError("an operation was waited for in a callback of another one")
except RuntimeError as error:
    assert "in a callback" in str(error), error

# what the job does not have
try:
    dist.recv(came)
    raise AssertionError("received from anybody")
except Exception as error:
    assert "name the rank" in str(error), error
strange = dist.new_group([0, 3])
if rank in (0, 3):
    try:
        dist.all_reduce(one, group=strange)
        raise AssertionError("sent in a group that the job does not have")
    except Exception as error:
        assert "no group of ranks 0, 3" in str(error), error
        print(error, flush=True)
if sys.argv[1:] == ["leave"]:
    if rank == 1:
        sys.exit(4)
    dist.all_reduce(one)
dist.barrier()
dist.destroy_process_group()
print("all held", flush=True)
"""
"""Each rank judges what it got."""


async def announced(lab: Lab, job: str) -> Counter[tuple[int, str, str, int]]:
    """How often each rank asked for an operation, by group, kind and size."""
    records = Records(f"sqlite:///{lab.data / 'records.db'}", InlineOffload())
    await records.open()
    try:
        events = [event.plane_event for event in await records.jobs.events(job)]
    finally:
        records.close()
    asked = [event for event in events if isinstance(event, Intent)]
    return Counter((one.rank, one.operation.group, str(one.operation.kind), one.operation.size_bytes) for one in asked)


async def test_each_operation_brings_what_it_should_and_is_announced_in_its_group(lab: Lab) -> None:
    program = lab.folder / "operations.py"
    program.write_text(OPERATIONS)
    groups = "{world: [0, 1, 2, 3], all: [3, 2, 1, 0], dp0: [0, 2], dp1: [1, 3], tp0: [0, 1], cp0: [0, 1], tp1: [2, 3]}"
    entry = f"{{command: [{sys.executable}, {program}], {EVERYWHERE}"
    await lab.up(text=rack_of(4, f"  all: {entry}, plane: static topology=ring, groups: {groups}}}\n", electrical=True))
    job = await start(lab, "all")
    found = await ended(lab, job)
    assert (found["state"], found["why"]) == ("succeeded", "")
    for rank in range(4):
        assert (await lines(lab, job, rank))[-1] == "all held"
    await lab.ok("job", "verify", job)
    assert {key[1:]: n for key, n in (await announced(lab, job)).items() if key[0] == 1} == {
        ("world", "barrier", 0): 4,  # the first one connects
        ("world", "all-reduce", 16): 4,
        ("world", "all-reduce", 32): 2,  # of integers, and of two tensors
        ("world", "all-gather", 32): 3,  # the third one is of the sizes of the objects
        ("world", "all-gather", 96): 1,
        ("world", "reduce-scatter", 32): 2,
        ("world", "all-to-all", 16): 2,
        ("world", "broadcast", 16): 1,
        ("world", "reduce", 16): 1,
        ("world", "gather", 16): 1,
        ("world", "scatter", 16): 1,
        ("world", "send", 4): 3,
        ("world", "receive", 4): 3,
        **{(group, kind, size): 1 for group in ("dp1", "tp0") for kind, size in (("barrier", 0), ("all-reduce", 16))},
    }
    assert any("no group of ranks 0, 3" in line and "under `groups`" in line for line in await lines(lab, job, 0))


async def test_rank_that_leaves_fails_the_job_and_the_others_end(lab: Lab) -> None:
    program = lab.folder / "operations.py"
    program.write_text(OPERATIONS)
    groups = "{world: [0, 1, 2, 3], dp0: [0, 2], dp1: [1, 3], tp0: [0, 1], tp1: [2, 3]}"
    entry = f"{{command: [{sys.executable}, {program}, leave], {EVERYWHERE}"
    await lab.up(text=rack_of(4, f"  all: {entry}, plane: static topology=ring, groups: {groups}}}\n", electrical=True))
    said = await lab.hwd("job", "run", "all")
    assert said.status == 1, said
    assert "rank 1 on h1 ended with status 4" in said.err, said.err
    assert_holds_nothing(await lab.until("it is over", lambda now: not now["jobs"]))
