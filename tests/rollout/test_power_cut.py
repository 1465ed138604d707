"""`hwd agent` on a host whose power fails."""

import asyncio
from pathlib import Path

import pytest

from ..machines.fixtures import Machines
from .fresh_host import operating

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(1500)]


async def test_a_host_whose_power_fails_during_the_install_is_finished_by_the_next_deploy(
    machines: Machines, tmp_path: Path, cache: Path
) -> None:
    async with operating(machines.contain, tmp_path, cache) as operator:
        cut = asyncio.create_task(operator.hwd("deploy"))
        await operator.on_host(
            "until ls /opt/hwd-agent/*/lib/python3*/site-packages/msgspec 2>/dev/null; do sleep 0.05; done"
        )
        operator.host.cut_power()
        said = await cut
        assert (said.status, said["result"]) == (4, "failed")
        await operator.host.up()
        doctor = await operator.hwd("doctor")
        assert [subject for subject, _ in doctor.red][:2] == ["install", "unit"]
        again = await operator.hwd("deploy")
        assert (again.status, again["result"]) == (0, "done"), again["why"]
        assert operator.births.is_up("h0")
