"""Events while links come up, which takes a NIC's firmware seconds: light is as documented, no event is lost."""

import asyncio
import signal

import pytest

from .conftest import STRAIGHT, Lab

pytestmark = pytest.mark.timeout(180)

NIC = "opus-cx6dx"


async def test_apply_that_is_cut_off_by_ctrl_c_goes_back(standing: Lab) -> None:
    light = await standing.light()
    apply = await standing.hwd_process("apply", "apply", f"ocs1:{','.join(sorted(STRAIGHT))}", "--yes")
    await standing.waited_for()
    assert await apply.end(signal.SIGINT) == 130
    assert await standing.lit(light) == light
    await standing.nothing_lost()


async def test_abort_ends_in_a_named_safe_state_within_five_seconds(standing: Lab) -> None:
    light = await standing.light()
    run = standing.run()
    now = await standing.under_way("waiting", done=2)
    started_s = asyncio.get_running_loop().time()
    aborted = await standing.hwd("abort", now["runs"][0]["run"], "--json")
    took_s = asyncio.get_running_loop().time() - started_s
    assert aborted.status == 0, aborted
    assert aborted.json["safe_state"] == "before-apply"
    assert took_s < 5.0 + 1.0  # the command line takes its start-up time, too
    assert await standing.light() == light
    assert (await run).status == 130
    await standing.nothing_lost()


@pytest.mark.slow
async def test_switch_cut_while_links_come_up_does_not_matter(standing: Lab) -> None:
    run = standing.go("apply", f"ocs1:{','.join(sorted(STRAIGHT))}", "--json")
    await standing.waited_for()
    await standing.fault("reset")
    said = await run
    assert said.status == 0, said
    assert await standing.light() == STRAIGHT
    await standing.nothing_lost()
