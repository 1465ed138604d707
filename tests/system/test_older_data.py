"""Files of an older version that was killed: a later version opens them, and finishes what they hold.

`make_older_data.py` makes them.
"""

import json
import signal
import tarfile
from pathlib import Path

import pytest

from .conftest import CROSSED, PLAYBOOK, STRAIGHT, Lab

OLDER = sorted((Path(__file__).parent / "older_data").glob("*.tar.xz"))


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("archive", OLDER, ids=[path.name.partition(".")[0] for path in OLDER])
async def test_data_folder_and_spools_of_an_older_version_are_opened_and_what_they_hold_is_finished(
    lab: Lab, archive: Path
) -> None:
    with tarfile.open(archive) as older:
        older.extraction_filter = tarfile.data_filter if hasattr(tarfile, "data_filter") else None  # not in 3.11.2
        older.extractall(lab.folder / "older")
    older_files = lab.folder / "older"
    state = json.loads((older_files / "state.json").read_text())
    (run,), (cut_off,) = state["runs"], state["reconfigurations"]
    spool = lab.folder / "run/lab/spool"
    spool.parent.mkdir(parents=True)
    (older_files / "spool").rename(spool)
    (older_files / "data").rename(lab.data)
    assert (spool / "h0/settings").stat().st_size
    lab.testbed.write_text((older_files / "testbed.yaml").read_text())
    lab.playbook.write_text(PLAYBOOK)
    await lab.hwd_process("rack", "twin", "up", str(lab.testbed))

    async def rack_up() -> bool | None:
        return lab.said("rack") is not None or None

    await lab.found("the rack is up", rack_up)
    await lab.patch(CROSSED)  # so far the older one had come

    daemon = await lab.serve()
    await lab.lit(STRAIGHT)
    recovered = await lab.recorded("daemon.recovered")
    assert (recovered["reconfiguration"], recovered["outcome"]) == (cut_off["reconfiguration"], "rolled-back")
    await lab.settled()
    now = await lab.get("/api/v1/status")
    assert now["open"] == []
    released = [one["holder"] for one in await lab.documents("lease.released")]
    assert "ada" in [*(one["holder"] for one in now["leases"]), *released], "a week has gone since, or it lasts"

    rows = {row["id"]: row for row in await lab.get("/api/v1/runs")}
    assert [row["outcome"] for row in rows.values()] == ["crashed", "succeeded"]
    assert (await lab.get(f"/api/v1/runs/{run['run']}/state"))["state"] == "crashed"
    await lab.until("the MTU is put back, or went with its kernel", lambda now: not now["held"])
    assert [(spool / host / "settings").read_bytes() for host in ("h0", "h1")] == [b"", b""]

    async def of_both_boots() -> dict[tuple[str, str], list[int]] | None:
        numbers: dict[tuple[str, str], list[int]] = {}
        for event in await lab.documents("host.event"):
            numbers.setdefault((event["host"], event["boot"]), []).append(event["seq"])
        return numbers if sorted(host for host, _ in numbers) == ["h0", "h0", "h1", "h1"] else None

    numbers = await lab.found("events of both hosts, what the older agents had spooled too", of_both_boots)
    for boot, seqs in numbers.items():
        assert sorted(seqs) == list(range(1, len(seqs) + 1)), f"events of {boot}: {seqs}"

    for lease in now["leases"]:
        await lab.ok("lease", "kick", lease["lease"])
    assert (await lab.run()).status == 0, "the switch is free, and the journal goes on"
    await daemon.end(signal.SIGTERM)
    await lab.serve()
    await lab.lit(CROSSED)
    await lab.settled()
    assert len(await lab.documents("daemon.recovered")) == 1
