"""A disk that is full in the middle of a run: a real file system with a limit, under a real daemon."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import CROSSED, STRAIGHT, Lab

SIZE_BYTES = 8 << 20
DWELLS = f"""
playbook: dwells
steps:
  - apply: {{pairs: "ocs1:{",".join(sorted(STRAIGHT))}"}}
  - wait: {{for: ready, within_s: 20}}
  - wait: {{for_s: 120}}
"""


class SmallDisk:
    """A tmpfs, which can be filled up and made free again."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self) -> None:
        descriptor = os.open(self.path / "ballast", os.O_WRONLY | os.O_CREAT)
        try:
            for size in (1 << 16, 1 << 12, 1):
                try:
                    while True:
                        os.write(descriptor, b"x" * size)
                except OSError:
                    continue
        finally:
            os.close(descriptor)

    def free(self) -> None:
        (self.path / "ballast").unlink()


@pytest.fixture
def disk(lab: Lab) -> Iterator[SmallDisk]:
    """Under the data directory of the lab."""
    if os.geteuid() != 0:
        pytest.skip("needs root: a tmpfs is mounted")
    lab.data.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "hwd-test", lab.data], check=True)
    try:
        yield SmallDisk(lab.data)
    finally:
        subprocess.run(["umount", "--lazy", lab.data], check=True)


async def test_run_fails_as_such_on_a_full_disk_and_what_was_recorded_stays_readable(lab: Lab, disk: SmallDisk) -> None:
    daemon = await lab.up()
    assert (await lab.run()).status == 0
    await lab.nothing_lost()
    before = await lab.outcome()
    held = len(await lab.get(f"/api/v1/runs/{before['id']}/documents"))
    (lab.folder / "dwells.yaml").write_text(DWELLS)
    run = lab.go("run", str(lab.folder / "dwells.yaml"), "--json")
    await lab.on_its_way(done=2)
    disk.fill()
    # an event comes in, and there is no room for it
    await lab.patch(CROSSED)
    said = await run
    assert (said.status, said.json["outcome"]) == (1, "failed"), said
    assert "disk is full" in said.json["why"]
    assert "What was recorded before stays readable" in said.json["why"]

    ready = await lab.get("/readyz")
    assert not ready["ready"]
    assert "disk is full" in ready["why"][0]
    rows = (await lab.hwd("runs", "--json")).json
    assert [(row["playbook"], row["outcome"]) for row in rows] == [("dwells", "failed"), ("to-and-fro", "succeeded")]
    assert len(await lab.get(f"/api/v1/runs/{before['id']}/documents")) == held
    state = await lab.get(f"/api/v1/runs/{said.json['run']}/state")
    assert (state["state"], state["fault_class"]) == ("failed", "failed")
    refused = await lab.run()
    assert refused.status == 1, "nothing begins that cannot be recorded"
    assert daemon.process.returncode is None

    await daemon.end(signal.SIGKILL)
    rows = (await lab.hwd("runs", "--data", str(lab.data), "--json")).json
    assert [row["outcome"] for row in rows] == ["failed", "succeeded"]
    disk.free()
    await lab.serve()
    await lab.settled()
    assert (await lab.outcome())["outcome"] == "failed", "not crashed"
    assert (await lab.run()).status == 0
    await lab.nothing_lost()
