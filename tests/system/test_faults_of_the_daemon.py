"""The daemon is killed, ended, or told to abort in a run: the light is where the program says, and no event is lost."""

import signal

import pytest

from .conftest import CROSSED, DARK, STRAIGHT, Lab

pytestmark = pytest.mark.timeout(180)


@pytest.mark.slow
async def test_daemon_killed_in_an_apply_rolls_back_at_its_next_start(lab: Lab) -> None:
    daemon = await lab.up()
    assert (await lab.run()).status == 0
    await lab.nothing_lost()
    before = lab.carrier_changes()
    await lab.fault("slow", seconds=1.0)
    run = lab.run()
    await lab.under_way("driving", done=1)
    await lab.lit(STRAIGHT)
    assert await daemon.end(signal.SIGKILL) == -signal.SIGKILL
    await lab.fault("clear")

    async def all_rose() -> bool | None:
        now = lab.carrier_changes()
        return all(now[port] >= before[port] + 2 for port in before) or None

    await lab.found("all carriers fell and rose while the daemon was away", all_rose)
    place = lab.said("daemon")
    assert place is not None
    await lab.serve(http=place["http"].removeprefix("http://"))
    await lab.settled()
    await lab.lit(CROSSED)

    document = await lab.recorded("daemon.recovered")
    assert document["outcome"] == "rolled-back"
    said = await run
    assert said.status == 1, said
    assert said.json["outcome"] == "crashed"
    ended = await lab.outcome()
    assert (ended["outcome"], ended["playbook"]) == ("crashed", "to-and-fro")
    await lab.nothing_lost()
    assert (await lab.run()).status == 0
    await lab.nothing_lost()


async def test_terminated_daemon_leaves_a_named_safe_state(lab: Lab) -> None:
    daemon = await lab.up(nic="opus-cx6dx")
    run = lab.run()
    await lab.under_way("waiting", done=2)
    assert await daemon.end(signal.SIGTERM) == 0
    assert await lab.light() == DARK
    said = await run
    assert said.status in (4, 130), said
    (ended,) = await lab.documents("run.ended")
    assert (ended["outcome"], ended["safe_state"]) == ("aborted", "before-apply")
    assert len(await lab.documents("reconfiguration.ended", "daemon.stopped")) == 2
    await lab.serve()
    await lab.settled()
    assert (await lab.outcome())["outcome"] == "aborted"
    await lab.nothing_lost()
