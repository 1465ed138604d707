"""A testbed of a thousand hosts with eight NICs each: how long `hwd check` takes, and a daemon until it is ready."""

import sys
from pathlib import Path

from bench.child import in_shell
from bench.daemon.startup import until_ready
from bench.lab import INSTALLED, NAME, Lab
from bench.measure import Bar, Summary, alternate
from bench.progress import Progress

HOSTS, QUICK_HOSTS, NICS, SIZE = 1000, 50, 8, 192
CHECK_S, READY_S = 3.0, 10.0
READ = "import sys, yaml; yaml.load(open(sys.argv[1]), Loader=yaml.CSafeLoader)"


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    rounds, hosts = (2, QUICK_HOSTS) if quick else (10, HOSTS)
    testbed = folder / "testbed.yaml"
    testbed.write_text(_testbed(hosts))
    lab = Lab(folder)
    progress.say(f"size: {hosts} hosts of {NICS} NICs, {rounds} turns of `hwd check`")
    checked_s, read_s = await alternate(
        rounds,
        lambda: in_shell(lab.environment, INSTALLED, "check", str(testbed)),
        lambda: in_shell(lab.environment, sys.executable, "-c", READ, str(testbed)),
    )
    async with lab.rack(testbed):
        progress.say(f"size: {rounds} turns of `hwd serve`")
        (ready_s,) = await alternate(rounds, lambda: until_ready(lab, testbed))
    checked, read, ready = Summary.of(checked_s), Summary.of(read_s), Summary.of(ready_s)
    size = f"{hosts} hosts of {NICS} NICs"
    return [
        Bar(
            name=f"hwd check of {size}",
            value=checked.median,
            limit=CHECK_S,
            unit="s",
            spread=(
                f"quartiles {checked.p25:.2f}-{checked.p75:.2f}; "
                f"{checked.median / read.median:.2f} times the floor: to read its YAML takes {read.median:.2f} s"
            ),
            n=checked.n,
            detail={"ours_s": checked.to_data(), "floor_s": read.to_data()},
        ),
        Bar(
            name=f"start of the daemon until it is ready, {size}",
            value=ready.median,
            limit=READY_S,
            unit="s",
            spread=f"quartiles {ready.p25:.2f}-{ready.p75:.2f}",
            n=ready.n,
            detail={"ours_s": ready.to_data()},
        ),
    ]


def _testbed(count: int) -> str:
    """The testbed file: hosts without agents, and twins for the switches."""
    ports = [(host, nic) for host in range(count) for nic in range(NICS)]
    switches = "\n".join(
        f"  ocs{number + 1}: {{driver: polatis-tl1, model: polatis-6000, size: {SIZE}x{SIZE}, "
        f"twin: {{timing: ideal, seed: {number}}}}}"
        for number in range(-(-len(ports) // SIZE))
    )
    hosts = "\n".join(
        f"  h{host}:\n    ssh: root@h{host}\n    gpus: {{0: {{numa: 0}}}}\n    groups: [dp{host % 10}]\n    nics:\n"
        + "\n".join(
            f"      eth{nic}: {{rdma: mlx5_{nic}, rail: {nic}, gpus: [0], module: 100g-lr4, "
            f"ip: 10.{nic}.{host // 250}.{host % 250 + 1}/32}}"
            for nic in range(NICS)
        )
        for host in range(count)
    )
    fibres = "\n".join(
        f"  - h{host}.eth{nic} <-> ocs{index // SIZE + 1}.{index % SIZE + 1}" for index, (host, nic) in enumerate(ports)
    )
    return f"testbed: {NAME}\nswitches:\n{switches}\nhosts:\n{hosts}\nfibres:\n{fibres}\n"
