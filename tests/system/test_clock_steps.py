"""A host whose clock is set during a reconfiguration, in virtual time: its run is marked wherever it is reported."""

import asyncio
import re
from pathlib import Path

import pytest

from hwd.model.fault import parse_fault
from hwd.records.records import Records
from hwd.report.run_report import RunReport, load
from hwd.sim.world import World
from hwd.timeline import Timeline
from hwd_drivers.core.documents import Document
from hwd_drivers.core.offload import InlineOffload

from .conftest import CROSSED, STRAIGHT
from .test_world import loaded, playbook


async def cross_with_a_step(folder: Path, *, after_s: float, by_s: float) -> RunReport:
    """Cross the links and set the clock of h0 that long after the command to the switch; return the recorded run."""
    testbed, text, records_url = loaded(folder)
    commanded = asyncio.Event()

    def see(document: Document) -> None:
        if document.kind == "reconfiguration.commanded":
            commanded.set()

    async with World(testbed, text, seed=7, records_url=records_url, sinks=[see]) as world:
        await world.run_playbook(playbook(STRAIGHT), file="playbook.yaml")
        commanded.clear()
        crossing = asyncio.create_task(world.run_playbook(playbook(CROSSED), file="playbook.yaml"))
        await commanded.wait()
        await asyncio.sleep(after_s)
        await world.set_fault(parse_fault({"host": "h0", "fault": "clock-step", "seconds": by_s}))
        run = await crossing
    records = Records(records_url, InlineOffload())
    await records.open()
    try:
        (report,) = await load(records, [run])
    finally:
        records.close()
    return report


def steps(timeline: Timeline) -> list[str]:
    return [breach for breach in timeline.breaches if breach.startswith("h0: its clock was stepped by")]


@pytest.mark.usefixtures("virtual_loop")
async def test_a_step_is_found_by_the_last_answer_of_the_agent_and_the_order_rules_show_what_it_moved(
    tmp_path: Path,
) -> None:
    """Back by 3.05 s, between light and firmware: 0.4 s before firmware, and long before the next clock request."""
    report = await cross_with_a_step(tmp_path, after_s=2.7, by_s=-3.05)
    (timeline,) = report.timelines
    assert len(steps(timeline)) == len(report.clock_steps) == 1
    assert any("light at" in breach and "should not be after firmware" in breach for breach in timeline.breaches)
    (firmware,) = (one for end in timeline.ends if str(end.end) == "h0.eth0" for one in end.instants[2:3])
    assert firmware.error_ns < 2_000_000  # nothing is widened to hide it


@pytest.mark.slow
@pytest.mark.parametrize(("by_s", "after_s"), [(3600.0, 0.05), (3600.0, 2.7), (-3600.0, 2.7), (0.2, 2.7)])
@pytest.mark.usefixtures("virtual_loop")
async def test_a_clock_that_is_set_in_a_reconfiguration_is_a_breach_of_it_and_stands_in_the_report(
    tmp_path: Path, by_s: float, after_s: float
) -> None:
    report = await cross_with_a_step(tmp_path, after_s=after_s, by_s=by_s)
    (step,) = report.clock_steps
    found = re.fullmatch(
        r"h0: its clock was stepped by ([-+][0-9.]+) s \+- (\d+) us, found [0-9.]+ s into the run", step
    )
    assert found is not None, step
    assert abs(float(found[1]) - by_s) <= int(found[2]) / 1e6 + 1e-6
    (timeline,) = report.timelines
    assert len(steps(timeline)) == 1
