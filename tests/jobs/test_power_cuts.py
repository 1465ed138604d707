"""Jobs whose daemon's machine loses its power, and records that refuse or take their time."""

import asyncio
from collections.abc import Collection, Iterator, Mapping

import pytest

from hwd.bus.host_settings.run_settings import HostSettings
from hwd.jobs.job_run import AGAIN_S
from hwd.model.action import Action as HostAction
from hwd.model.answers import JobStatus
from hwd.model.documents.jobs import JobSwitched
from hwd.model.documents.reconfigurations import ReconfigurationStarted
from hwd.model.plane import (
    Action,
    Event,
    Intent,
    Route,
)
from hwd_drivers.core.documents import Json

from .job_lab import STATIC, Alternates, Lab, Routes, asked, ended, of_job, start, when


@of_job(entry=f"{STATIC}, answer_within_s: 10", steps=5)
@pytest.mark.parametrize("lost_s", [0.05, 0.15, 0.45, 0.85])
async def test_job_that_lost_what_its_plane_was_told_last_with_the_power_ends_and_says_so(
    lab: Lab, lost_s: float
) -> None:
    job = await start(lab, asked(1))
    await asyncio.sleep(0.1)
    lab.world.records_disk.hang()
    await asyncio.sleep(lost_s)
    lab.cut_power()
    lab.world.records_disk.mend()
    await asyncio.sleep(1)
    lab.world.start_daemon()
    await lab.world.settled()
    status = await ended(lab, job)
    if lost_s < 0.1:  # nothing has happened
        assert (status.state, status.why) == ("succeeded", "")
    else:
        assert status.state == "failed"
        assert "the daemon's machine lost its power" in status.why
    [found] = await lab.service.verify_job(job)
    assert found.breaches == [], [str(one) for one in found.breaches]
    assert lab.service.status().leases == []
    assert lab.service.sets() == []


@of_job(entry="plane: own, answer_within_s: 20", plane=Alternates())
async def test_no_light_moves_before_why_is_in_the_records(lab: Lab) -> None:
    job = await start(lab, lambda status: status.ranks[1].state == "sending")
    lab.world.records_disk.hang()
    await when(lab, job, lambda status: status.moving == "b")
    await asyncio.sleep(5)
    assert len(lab.emitted(ReconfigurationStarted)) == 1
    lab.world.records_disk.mend()
    await ended(lab, job)
    assert [one.target for one in lab.emitted(JobSwitched)] == ["a", "b", "a"]


@of_job(entry="plane: own, answer_within_s: 10", plane=Alternates())
async def test_light_waits_for_records_that_refuse_and_who_waits_for_it_hears_why(lab: Lab) -> None:
    job = await start(lab, lambda status: status.ranks[1].state == "sending")
    lab.world.records_disk.refuse("disk I/O error")
    await when(lab, job, lambda status: status.moving == "b")
    await asyncio.sleep(12)
    assert [one.target for one in lab.emitted(JobSwitched)] == ["a"], "it is no failure of the target"
    lab.world.records_disk.mend()
    assert "; what it was told cannot be recorded: records: disk I/O error" in (await ended(lab, job)).why


@pytest.fixture
def settings_done(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What agents were asked to set and to put back, by host: those of twins without a kernel have no routes."""
    done: list[tuple[str, str]] = []

    async def do(self: HostSettings, run: str, action: HostAction, *, lease: str | None = None) -> Mapping[str, Json]:
        done.append((action.port.host, "set"))
        return {}

    async def put_back(
        self: HostSettings, run: str, *, hosts: Collection[str] | None = None, lease: str | None = None
    ) -> None:
        done.extend((host, "put back") for host in hosts or ())

    monkeypatch.setattr(HostSettings, "do", do)
    monkeypatch.setattr(HostSettings, "put_back", put_back)
    return done


class RoutesOnce(Routes):
    """Sets the route before the second operation alone."""

    def on(self, event: Event) -> Iterator[Action]:
        for action in super().on(event):
            if not (isinstance(action, Route) and isinstance(event, Intent) and event.operation.index > 1):
                yield action


@of_job(entry="plane: own, answer_within_s: 20", plane=RoutesOnce(), steps=2)
async def test_routes_are_not_set_before_why_is_in_the_records(lab: Lab, settings_done: list[tuple[str, str]]) -> None:
    job = await start(lab, lambda status: status.ranks[1].state == "sending")
    lab.world.records_disk.hang()
    second = await when(lab, job, lambda status: status.ranks[1].operation.startswith("all-reduce 1 of"))
    assert second.ranks[0].state == "waiting"
    await asyncio.sleep(3)
    assert settings_done == []
    lab.world.records_disk.mend()
    assert (await ended(lab, job)).state == "succeeded"
    assert ("h0", "set") in settings_done


@of_job(entry="plane: own, answer_within_s: 10", plane=RoutesOnce(), steps=3, seconds=8.0)
async def test_routes_of_a_host_that_sends_are_left_alone_after_a_power_cut(
    lab: Lab, settings_done: list[tuple[str, str]]
) -> None:
    def is_third(status: JobStatus) -> bool:
        return status.ranks[0].operation.startswith("all-reduce 2 of")

    job = await start(lab, is_third)
    await asyncio.sleep(0.1)  # that rank 0 has come is in the records; rank 1 comes 0.3 s after it
    lab.world.records_disk.hang()
    await asyncio.sleep(1)
    sending = {one.host for one in (await lab.service.job(job)).ranks if one.state == "sending"}
    settings_done.clear()
    lab.cut_power()
    lab.world.records_disk.mend()
    lab.world.start_daemon()
    await lab.world.settled()
    await asyncio.sleep(3)
    assert not sending & {host for host, what in settings_done if what == "put back"}
    assert (await ended(lab, job)).state == "succeeded"


async def test_daemon_whose_records_fail_as_it_starts_goes_on_with_its_jobs_later(lab: Lab) -> None:
    """Seed 9551: it ended."""

    async def started() -> None:
        while True:
            if lab.world.daemon is not None:
                return
            await asyncio.sleep(0.01)

    job = await start(lab, lambda status: status.ranks[1].state == "sending")
    lab.kill_daemon()
    lab.world.records_disk.delay_s = lambda: 0.2
    lab.world.start_daemon()
    await started()
    lab.world.records_disk.refuse("database or disk is full")
    await asyncio.sleep(3)
    lab.world.records_disk.mend()
    lab.world.records_disk.delay_s = lambda: 0.0
    await asyncio.sleep(AGAIN_S)
    assert (await ended(lab, job)).state == "succeeded"
