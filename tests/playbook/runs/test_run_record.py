"""What the record of a run says of the lab: modules, NICs and kernels as the agents found them."""

import asyncio
from typing import Any

from hwd.model.kinds import UnreadFact
from hwd.model.recorded_run import Run, RunOutcome
from hwd.model.run import RunState
from hwd.playbook.run_record import status_of

from ...sim.lab import Lab


async def inventory(lab: Lab, *steps: str) -> dict[str, dict[str, Any]]:
    """Of the hosts, as a run of these steps has it in the records."""
    run = await lab.start(*steps)
    await lab.ended(run)
    found = (await lab.in_daemon(lab.service.run(run))).inventory
    return {host["host"]: host["inventory"] for host in found["hosts"]}


async def test_a_run_is_recorded_with_modules_nics_and_kernels(lab: Lab) -> None:
    hosts = await inventory(lab, "note: hello")
    assert set(hosts) == {"h0", "h1", "h2", "h3"}
    for name, found in hosts.items():
        assert found["kernel"].startswith("Linux ")
        assert found["modules"]["eth0"]["vendor"], name
        assert found["modules"]["eth0"]["part"], name
        assert found["nics"]["eth0"]["autoneg"] is True
        assert found["nics"]["eth0"]["fec"] == {"auto": True, "modes": []}
        assert found["nics"]["eth0"]["driver"] is None  # of a twin without a kernel


async def test_what_was_set_of_a_nic_before_a_run_stands_in_its_record(lab: Lab) -> None:
    first = await lab.start("host: {ports: [h0.eth0], set: {autoneg: off}}", "wait: {for_s: 60}")
    await asyncio.sleep(10)
    hosts = await inventory(lab, "note: hello")
    assert [found["nics"]["eth0"]["autoneg"] for found in hosts.values()] == [False, True, True, True]
    await lab.ended(first)
    await asyncio.sleep(10)
    hosts = await inventory(lab, "note: hello")
    assert hosts["h0"]["nics"]["eth0"]["autoneg"] is True


def test_state_that_another_version_recorded_says_nothing_of_the_progress() -> None:
    run = Run(id="k3v9", playbook="p", testbed="t", version="1", started_wall_ns=1, outcome=RunOutcome.FAILED, why="x")
    state = status_of(run, UnreadFact(kind="run.state", fields={"run": "k3v9", "state": "dancing"}))
    assert (state.state, state.why, state.step, state.steps) == (RunState.FAILED, "x", None, 0)
