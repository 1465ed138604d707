"""The desired state: what the last confirmed reconfiguration of each port wanted, through crashes and drift."""

import asyncio
from typing import Any

import pytest

from hwd.model.answers import ReconfigurationStatus, SwitchDesired
from hwd.sim.world import DAEMON

from ..conftest import CROSSED, STRAIGHT, Lab, RunLab


async def apply(lab: Lab, what: str, **more: Any) -> ReconfigurationStatus:
    """In the node of the daemon, so that its time dies with it."""
    return await lab.world.nodes.run_in_node(DAEMON, lab.service.apply(lab.request(what, **more)))


async def restart(lab: Lab) -> None:
    lab.world.kill(DAEMON)
    await asyncio.sleep(1.0)
    lab.world.start_daemon()
    await lab.world.settled()


def desired(lab: Lab) -> SwitchDesired | None:
    found = lab.service.status().desired
    return found[0] if found else None


def names(what: str) -> list[str]:
    return what.removeprefix("ocs1:").split(",")


def test_confirmed_is_desired_right_after_a_crash_that_follows_the_answer(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        assert desired(lab) is None, "nobody ever asked for anything"
        await apply(lab, STRAIGHT)
        crossed = await apply(lab, CROSSED)
        await restart(lab)
        found = desired(lab)
        assert found is not None
        assert sorted(found.crossconnects) == sorted(names(CROSSED))
        assert (found.free, found.missing, found.stale, found.unasked, found.unknown) == ([], [], [], [], None)
        assert set(found.by.values()) == {crossed.id}

    run_lab(test)


def test_what_moves_nothing_is_desired_after_a_crash_too(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await apply(lab, "ocs1:1A-none,4B-none")
        await restart(lab)
        found = desired(lab)
        assert found is not None
        assert (found.crossconnects, found.free) == ([], ["1A", "4B"])

    run_lab(test)


@pytest.mark.parametrize("end", ["rollback", "nothing"])
def test_what_is_not_confirmed_is_not_desired(run_lab: RunLab, end: str) -> None:
    async def test(lab: Lab) -> None:
        await apply(lab, STRAIGHT)
        crossed = await apply(lab, CROSSED, confirm_within_s=600)
        if end == "rollback":
            await lab.service.roll_back(crossed.id)
        found = desired(lab)
        assert found is not None
        assert sorted(found.crossconnects) == sorted(names(STRAIGHT))
        assert (found.missing, found.stale) == ([], [])
        assert bool(found.changing) == (end == "nothing"), "no difference counts where a reconfiguration is in progress"

    run_lab(test)


def test_wait_that_is_confirmed_after_a_restart_is_desired_with_the_ends_it_frees(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        one = await apply(lab, "ocs1:1A-3B,2A-none,4B-none", confirm_within_s=600)
        await restart(lab)
        await lab.service.confirm(one.id)
        found = desired(lab)
        assert found is not None
        assert (found.crossconnects, found.free) == (["1A-3B"], ["2A", "4B"])

    run_lab(test)


def test_partner_of_an_end_that_is_wanted_elsewhere_shall_be_free(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await apply(lab, "ocs1:1A-3B")
        await apply(lab, "ocs1:1A-4B")
        found = desired(lab)
        assert found is not None
        assert (found.crossconnects, found.free) == (["1A-4B"], ["3B"])

    run_lab(test)
