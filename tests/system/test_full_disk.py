"""A disk that is full in the middle of a run: a real file system with a limit, under a real daemon."""

import signal
from collections.abc import Iterator

import pytest

from .conftest import CROSSED, STRAIGHT, Lab, Program, SmallDisk, small_disk

pytestmark = pytest.mark.timeout(300)  # three starts of a daemon, and a disk that is filled byte by byte

SIZE_BYTES = 8 << 20
DWELLS = f"""
playbook: dwells
steps:
  - apply: {{pairs: "ocs1:{",".join(sorted(STRAIGHT))}"}}
  - wait: {{for: ready, within_s: 20}}
  - wait: {{for_s: 120}}
"""


@pytest.fixture
def disk(lab: Lab) -> Iterator[SmallDisk]:
    """Under the data directory of the lab."""
    lab.data.mkdir()
    with small_disk(lab.data, SIZE_BYTES) as disk:
        yield disk


@pytest.mark.slow
async def test_run_fails_as_such_on_a_full_disk_what_was_recorded_stays_readable_and_a_killed_daemon_brings_back(
    lab: Lab, disk: SmallDisk
) -> None:
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
    daemon = await lab.serve()
    await lab.settled()
    assert (await lab.outcome())["outcome"] == "failed", "not crashed"
    assert (await lab.run()).status == 0
    await lab.nothing_lost()
    await _starts_on_a_full_disk_and_brings_the_switches_back(lab, disk, daemon, has_reserve=False)


@pytest.mark.slow
async def test_killed_daemon_starts_on_a_full_disk_with_a_reserve_and_brings_the_switches_back(
    lab: Lab, disk: SmallDisk
) -> None:
    daemon = await lab.up()
    assert (await lab.run()).status == 0
    await lab.nothing_lost()
    await _starts_on_a_full_disk_and_brings_the_switches_back(lab, disk, daemon, has_reserve=True)


async def _starts_on_a_full_disk_and_brings_the_switches_back(
    lab: Lab, disk: SmallDisk, daemon: Program, *, has_reserve: bool
) -> None:
    """The daemon is killed in a run; the next one starts on a full disk, with or without a reserve of its own on it."""
    recoveries = len(await lab.documents("daemon.recovered"))
    await lab.fault("slow", seconds=1.0)
    run = lab.run()
    now = await lab.under_way("driving", done=1)
    await lab.lit(STRAIGHT)
    assert await daemon.end(signal.SIGKILL) == -signal.SIGKILL
    await lab.fault("clear")
    if not has_reserve:
        (disk.path / "reserve").unlink()
    disk.fill()

    place = lab.said("daemon")
    assert place is not None
    risen = await lab.serve(http=place["http"].removeprefix("http://"))
    await lab.lit(CROSSED)
    (id,) = (one["run"] for one in now["runs"])
    state = await lab.found("the daemon answers", lambda: lab.get(f"/api/v1/runs/{id}/state"))
    assert state["state"] == "crashed"

    async def not_ready() -> str | None:
        ready = await lab.get("/readyz")
        return next((why for why in ready["why"] if "disk is full" in why), None)

    assert await lab.found("it says that it is not ready", not_ready)
    assert not (await lab.get("/api/v1/status"))["records"]["writable"]
    assert (await lab.outcome())["outcome"] == ("crashed" if has_reserve else None)
    assert (await lab.outcome())["state"] == "crashed"
    said = await run
    assert (said.status, said.json["outcome"]) == (1, "crashed"), said
    assert risen.process.returncode is None

    disk.free()
    assert (await lab.recorded("daemon.recovered", after=recoveries))["outcome"] == "rolled-back"
    await lab.settled()
    await lab.found("it is ready again", lambda: ready_again(lab))
    assert (await lab.outcome())["outcome"] == "crashed"
    assert [one["outcome"] for one in await lab.documents("run.ended", run=id)] == ["crashed"]
    assert (await lab.run()).status == 0
    await lab.nothing_lost()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_what_was_confirmed_on_a_disk_that_got_full_since_its_begin_stands_after_the_next_start(
    lab: Lab, disk: SmallDisk, number: signal.Signals
) -> None:
    daemon = await lab.up()
    for what in (STRAIGHT, CROSSED):
        slow = what == CROSSED
        if slow:
            await lab.fault("slow", seconds=1.0)
        applied = lab.go("apply", f"ocs1:{','.join(sorted(what))}", "--no-ready", "--yes", "--json")
        if slow:
            await lab.until(
                "it is driving", lambda now: [one for one in now["reconfigurations"] if one["state"] == "driving"]
            )
            disk.fill()
            journal = disk.path / "journal"
            reserved = len(written := journal.read_bytes()) - len(written.rstrip(b"\0"))
            assert reserved > 100, "its end has room"
            assert journal.stat().st_blocks * 512 >= len(written), "which is its own"
        said = await applied
        assert (said.status, said.json["outcome"]) == (0, "confirmed"), said
    await lab.fault("clear")
    await daemon.end(number)
    await lab.serve()
    await lab.settled()
    now = await lab.get("/api/v1/status")
    assert (now["open"], now["journal"]["writable"], await lab.light()) == ([], True, CROSSED)
    disk.free()
    assert (await lab.hwd("apply", f"ocs1:{','.join(sorted(STRAIGHT))}", "--no-ready", "--yes")).status == 0
    await lab.found("it is ready again", lambda: ready_again(lab))
    assert await lab.documents("daemon.recovered") == []


async def ready_again(lab: Lab) -> bool | None:
    return (await lab.get("/readyz"))["ready"] or None
