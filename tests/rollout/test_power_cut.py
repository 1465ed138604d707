"""`hwd agent` on a host whose power fails."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from ..machines.fixtures import Machines
from ..machines.image import Image
from ..machines.machine import Boot
from .fresh_host import operating

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(1500)]


@pytest.fixture
def journalled(machine_image: Image, tmp_path: Path) -> Iterator[Machines]:
    """Machines whose disk is as that of real hosts: what its file system is survives a power cut."""
    disk = tmp_path / "disk"
    subprocess.run(["cp", "--sparse=always", machine_image.disk, disk], check=True, timeout=120)
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    subprocess.run(["tune2fs", "-j", disk], check=True, timeout=120, capture_output=True, env={"PATH": path})
    with Machines(replace(machine_image, disk=disk)) as made:
        yield made


async def test_a_host_whose_power_fails_during_the_install_is_finished_by_the_next_deploy(
    journalled: Machines, tmp_path: Path, cache: Path
) -> None:
    start = partial(journalled.start, boot=Boot.SYSTEMD, through=("sh", "-c", 'exec "$@" -action reboot=reset', "sh"))
    async with operating(start, tmp_path, cache) as operator:
        cut = asyncio.create_task(operator.hwd("deploy"))
        await operator.on_host(
            "until ls /opt/hwd-agent/*/lib/python3*/site-packages/msgspec 2>/dev/null; do sleep 0.5; done"
        )
        await operator.host.spawn("sh", "-c", "echo b >/proc/sysrq-trigger", log="/dev/null")
        said = await cut
        assert (said.status, said["result"]) == (4, "failed")
        await operator.host.up(within_s=400)
        doctor = await operator.hwd("doctor")
        assert [subject for subject, _ in doctor.red][:2] == ["install", "unit"]
        again = await operator.hwd("deploy")
        assert (again.status, again["result"]) == (0, "done"), again["why"]
        assert operator.births.is_up("h0")
