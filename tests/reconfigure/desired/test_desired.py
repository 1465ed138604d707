"""The desired state: what the last confirmed reconfiguration of each port wanted, through crashes and drift."""

import pytest

from hwd.model.answers import SwitchDesired

from ..conftest import CROSSED, STRAIGHT, Lab, wanted


def desired(lab: Lab) -> SwitchDesired:
    (found,) = lab.service.status().desired
    return found


async def test_confirmed_is_desired_right_after_a_crash_that_follows_the_answer(lab: Lab) -> None:
    assert lab.service.status().desired == [], "nobody ever asked for anything"
    await lab.apply(STRAIGHT)
    crossed = await lab.apply(CROSSED)
    await lab.restart()
    found = desired(lab)
    assert sorted(found.crossconnects) == sorted(wanted(CROSSED))
    assert (found.free, found.missing, found.stale, found.unasked, found.unknown) == ([], [], [], [], None)
    assert set(found.by.values()) == {crossed.id}


async def test_what_moves_nothing_is_desired_after_a_crash_too(lab: Lab) -> None:
    await lab.apply("ocs1:1A-none,4B-none")
    await lab.restart()
    found = desired(lab)
    assert (found.crossconnects, found.free) == ([], ["1A", "4B"])


@pytest.mark.parametrize("end", ["rollback", "nothing"])
async def test_what_is_not_confirmed_is_not_desired(lab: Lab, end: str) -> None:
    await lab.apply(STRAIGHT)
    crossed = await lab.apply(CROSSED, confirm_within_s=600)
    if end == "rollback":
        await lab.service.roll_back(crossed.id)
    found = desired(lab)
    assert sorted(found.crossconnects) == sorted(wanted(STRAIGHT))
    assert (found.missing, found.stale) == ([], [])
    assert bool(found.changing) == (end == "nothing"), "no difference counts where a reconfiguration is in progress"


async def test_wait_that_is_confirmed_after_a_restart_is_desired_with_the_ends_it_frees(lab: Lab) -> None:
    one = await lab.apply("ocs1:1A-3B,2A-none,4B-none", confirm_within_s=600)
    await lab.restart()
    await lab.service.confirm(one.id)
    found = desired(lab)
    assert (found.crossconnects, found.free) == (["1A-3B"], ["2A", "4B"])


async def test_partner_of_an_end_that_is_wanted_elsewhere_shall_be_free(lab: Lab) -> None:
    await lab.apply("ocs1:1A-3B")
    await lab.apply("ocs1:1A-4B")
    found = desired(lab)
    assert (found.crossconnects, found.free) == (["1A-4B"], ["3B"])
