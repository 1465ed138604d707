"""Makes an archive of `older_data/`: the data folder of a daemon killed in a reconfiguration, and its agents' spools.

    .venv/bin/python -m tests.system.make_older_data tests/system/older_data/schema-11.tar.xz

Each format that later versions must open has its archive, made once by the version that wrote it; a later version never
makes it again. It has a run that succeeded, a run that was killed in its second apply and has set an MTU, a confirmed
apply, a lease for a week, a blocked end, and events that no daemon has acknowledged.
"""

import asyncio
import json
import shutil
import signal
import sys
import tarfile
import tempfile
from pathlib import Path

from .conftest import CROSSED, STRAIGHT, Lab

TESTBED = """
testbed: lab
switches:
  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: ideal, seed: 7}}
host_actions: [mtu]
hosts:
  h0:
    twin: {timing: ideal, seed: 1, clock: {offset_s: 5, drift_ppm: 50}}
    nics:
      eth0: {rdma: mlx5_0, rail: 0, ip: 10.1.0.1/32, module: 100g-lr4}
      eth1: {rdma: mlx5_1, rail: 0, ip: 10.1.0.2/32, module: 100g-lr4}
  h1:
    twin: {timing: ideal, seed: 2, clock: {offset_s: -3, drift_ppm: -40}}
    nics:
      eth0: {rdma: mlx5_0, rail: 0, ip: 10.1.1.1/32, module: 100g-lr4}
      eth1: {rdma: mlx5_1, rail: 0, ip: 10.1.1.2/32, module: 100g-lr4}
fibres:
  - h0.eth0 <-> ocs1.1
  - h0.eth1 <-> ocs1.2
  - h1.eth0 <-> ocs1.3
  - h1.eth1 <-> ocs1.4
"""
KILLED = f"""
playbook: killed
shows: what a daemon leaves that is killed in a reconfiguration
steps:
  - lease: {{ports: [h0.eth0, h0.eth1, h1.eth0, h1.eth1], for_s: 3600}}
  - host: {{ports: [h0.eth0], set: {{mtu: 4200}}}}
  - apply: {{pairs: "ocs1:{",".join(sorted(CROSSED))}"}}
  - wait: {{for: ready, within_s: 20}}
"""
WEEK_S = 7 * 86400


async def main(target: Path) -> None:
    """Write the archive: `testbed.yaml`, `data/`, `spool/`, and `state.json` with the state at the daemon's death."""
    lab = Lab(Path(tempfile.mkdtemp(prefix="hwd-")))
    try:
        daemon = await lab.up(text=TESTBED)
        assert (await lab.run()).status == 0
        applied = await lab.hwd("apply", f"ocs1:{','.join(sorted(STRAIGHT))}", "--yes", "--json")
        assert applied.status == 0, applied
        for words in (f"lease take ocs1.7 --for {WEEK_S} --holder ada", "block ocs1:8A"):
            done = await lab.hwd(*words.split())
            assert done.status == 0, done
        await lab.settled()
        (lab.folder / "killed.yaml").write_text(KILLED)
        await lab.fault("slow", seconds=1.0)
        lab.go("run", str(lab.folder / "killed.yaml"), "--json")
        now = await lab.under_way("driving", done=2)
        await daemon.end(signal.SIGKILL)
        await lab.fault("clear")
        await lab.patch(STRAIGHT - {"1A-3B", "3A-1B"})
        await lab.patch(STRAIGHT)

        async def spooled() -> bool | None:
            return all(path.stat().st_size for path in (lab.folder / "run/lab/spool").glob("*/events")) or None

        await lab.found("the agents have put down what they saw", spooled)
        found = lab.folder / "found"
        shutil.copytree(lab.data, found / "data")
        shutil.copytree(lab.folder / "run/lab/spool", found / "spool")
        shutil.copy(lab.testbed, found)
        state = {"light": sorted(await lab.light()), "runs": now["runs"], "reconfigurations": now["reconfigurations"]}
        (found / "state.json").write_text(json.dumps(state, indent=1))
        target.parent.mkdir(exist_ok=True)
        with tarfile.open(target, "w:xz") as archive:
            for path in sorted(found.rglob("*")):
                archive.add(path, arcname=path.relative_to(found), recursive=False)
    finally:
        await lab.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
