"""A transformer with experts in the ranks of a job: its all-to-alls over light that follows what they have to send."""

import asyncio
import getpass
import importlib.util
import re
import sys

import pytest

from .conftest import Lab
from .job_rack import EXAMPLES, assert_holds_nothing, ended, lines, start

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="needs PyTorch: `make test-torch` installs it"
    ),
]

PLAYBOOKS = EXAMPLES.parent / "playbooks"
TRAIN = EXAMPLES / "moe-training" / "moe_training.py"
STEPS = 3
LAYERS = 2


def rack() -> str:
    """Four hosts of two GPUs, each with one NIC port on the optical switch, and one port a host on packets."""
    lines = [
        "testbed: lab",
        "switches:",
        "  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 16x16, twin: {timing: ideal, seed: 7}}",
        "packet_switches: {eps1: {ports: 8}}",
        "hosts:",
    ]
    for host in range(4):
        nics = [f"eth{n}: {{numa: {n}, gpus: [{n}], ip: 10.1.{n}.{host + 1}/32, module: 100g-lr4}}" for n in range(2)]
        nics.append(f"eth2: {{ip: 10.5.0.{host + 1}/32, module: 100g-lr4}}")
        gpus = "gpus: {0: {numa: 0}, 1: {numa: 1}}"
        twin = f"twin: {{kernel: true, timing: ideal, seed: {host}}}"
        lines.append(f"  h{host}: {{{twin}, {gpus}, nics: {{{', '.join(nics)}}}}}")
    lines.append("fibres:")
    for host in range(4):
        lines += [f"  - h{host}.eth{n} <-> ocs1.{2 * host + n + 1}" for n in range(2)]
        lines.append(f"  - h{host}.eth2 <-> eps1.{host + 1}")
    entry = f"command: [{sys.executable}, {TRAIN}], user: {getpass.getuser()}, hosts: [h0, h1, h2, h3]"
    entry += f", ranks_per_host: 2, arguments: true, plane: mfabric layers={LAYERS}"
    return "\n".join(lines) + f"\njobs:\n  moe: {{{entry}}}\n  moe-block: {{{entry} first=block}}\n"


async def trained(lab: Lab, *words: str) -> tuple[str, list[str]]:
    """The job, and the losses of its steps, which all ranks have alike."""
    name, *arguments = words
    job = await start(lab, name, "--", "--layers", str(LAYERS), "--steps", str(STEPS), *arguments)
    found = await ended(lab, job)
    assert (found["state"], found["why"]) == ("succeeded", "")
    said = [await lines(lab, job, rank) for rank in range(8)]
    losses = [[one for one in text if re.fullmatch(r"step \d+: loss \S+", one)] for text in said]
    assert len(losses[0]) == STEPS
    assert all(one == losses[0] for one in losses)
    return job, losses[0]


async def targets_of(lab: Lab, job: str) -> set[str]:
    """Those that its light was brought to."""
    return {one["target"] for one in await lab.documents("job.switched") if one["job"] == job and not one["why"]}


async def test_experts_learn_over_light_that_follows_their_demand_as_over_packets(lab: Lab) -> None:
    await lab.up(text=rack())
    _, plain = await trained(lab, "moe", "--plain")
    job, losses = await trained(lab, "moe")
    assert losses == plain, "bit by bit"
    verified = await lab.ok("job", "verify", job)
    assert f"{8 * 4 * LAYERS * STEPS} operations" in verified.out
    assert len(await targets_of(lab, job)) >= 3
    said = await lab.hwd("job", "training", job, "--json")
    (found,) = said.json
    assert [one["iteration"] for one in found["iterations"]] == [*range(STEPS)]
    assert all(one["operations"] == 4 * LAYERS and one["seconds"] > 0 for one in found["iterations"])
    assert all(one["seconds"] > 0 and one["links"] is not None for one in found["moves"])
    said = await lab.hwd("job", "demand", job, "--iteration", "1", "--layer", "0", "--json")
    (found,) = said.json
    dispatch, combine, *_ = [one["size_bytes"] for one in found["matrices"]]
    assert len(found["matrices"]) == 4
    assert combine == [[*row] for row in zip(*dispatch, strict=True)], "what went to experts comes back"
    assert all(sum(row) > 0 for row in dispatch)
    job, losses = await trained(lab, "moe-block", "--without-row", "0")
    assert losses == plain
    assert len(await targets_of(lab, job)) >= 3
    said = await lab.hwd("job", "verify", job)
    assert said.status == 1, "bytes of a row that is not there go over packets"
    assert "bytes: " in said.out
    assert_holds_nothing(await lab.until("it is over", lambda now: not now["jobs"]))


async def test_playbook_of_figure_13_reports_iterations_over_light_and_over_packets(lab: Lab) -> None:
    """With the three ranks a host that have its optical ports: each rank imports PyTorch on the same two cores."""
    text = (EXAMPLES / "mfabric-training.yaml").read_text().replace("ranks_per_host: 4", "ranks_per_host: 3")
    text = text.replace("/srv/venv/bin/python", sys.executable).replace("/srv/moe_training.py", str(TRAIN))
    text = (
        text.replace('--eps-ports, "4"', '--eps-ports, "3"')
        .replace("testbed: mfabric-training", "testbed: lab")
        .replace("user: lab", f"user: {getpass.getuser()}")
    )
    await lab.up(text=text)
    command = await lab.hwd_process("training", "run", "mfabric-training", "-D", "steps=3", "-D", "batch=2")
    async with asyncio.timeout(250):
        assert await command.process.wait() == 0, command.log.read_text()
    (run,) = await lab.get("/api/v1/runs")
    shown = await lab.hwd("show", run["id"])
    found = {
        name: re.search(rf"^{name} --.* +2 +\S+ m?s +\S+ +(\d+) +(\d+) +\S+$", shown.out, re.MULTILINE)
        for name in ("circuits", "mesh", "all-eps")
    }
    moves = {name: row and (int(row[1]), int(row[2])) for name, row in found.items()}
    assert moves["mesh"] == (1, 6), shown
    assert moves["all-eps"] == (0, 0), shown
    assert (moves["circuits"] or (0, 0)) > (1, 4), shown
    page = lab.folder / "report.html"
    await lab.ok("report", run["id"], "-o", str(page))
    assert "<h2>Jobs</h2>" in page.read_text()
    await lab.ok("job", "verify", run["id"])


async def test_playbook_of_nic_activation_reports_what_it_adds_to_an_iteration(lab: Lab) -> None:
    """With the one job of this rack, whose two optical ports a host make its light move within iterations."""
    await lab.up(text=rack())
    text = (PLAYBOOKS / "mfabric-activation.yaml").read_text().replace("name: circuits", "name: moe")
    lab.playbook.write_text("".join(line for line in text.splitlines(True) if not re.search("name: (mesh|all-)", line)))
    command = await lab.hwd_process("activation", "run", str(lab.playbook), "-D", "steps=2", "-D", "batch=2")
    async with asyncio.timeout(250):
        assert await command.process.wait() == 0, command.log.read_text()
    ideal, slow = await lab.documents("run.job")
    assert [one["sweep"] for one in (ideal, slow)] == [{"nics": "ideal"}, {"nics": "mfabric-cx6"}]
    assert ideal["moves"] == slow["moves"] >= 3, "the demand is the same"
    moves = [(await lab.hwd("job", "training", one["job"], "--json")).json[0]["moves"] for one in (ideal, slow)]
    # The light of the job before may stand where the first move goes; moves that only part links need no NIC.
    at_once, late = [[one["seconds"] for one in some[1:] if one["links"]] for some in moves]
    assert len(at_once) == len(late) >= 2
    assert max(at_once) < 3
    assert 5 < min(late) <= max(late) < 9, "mFabric, figure 12: 5.67 s, of the last NIC of several"
    assert min(slow["seconds"]) > 5 > max(ideal["seconds"])
    assert slow["held_s"] > 0.8 * slow["moving_s"], "experts of this size hide little of it"
    (run,) = await lab.get("/api/v1/runs")
    shown = await lab.hwd("show", run["id"])
    for nics in ("ideal", "mfabric-cx6"):
        assert re.search(rf"^moe --layers 2 --steps 2 --batch 2 · nics={nics} ", shown.out, re.MULTILINE), shown
    await lab.ok("job", "verify", run["id"])
    assert (await lab.hwd("fault")).out == "", "the run has cleared what it set"
