"""A process that writes a spool is killed at random times: all events that it had flushed are found, in order."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("spool_process.py")


@pytest.mark.parametrize("lives", [40, pytest.param(1000, marks=[pytest.mark.slow, pytest.mark.timeout(300)])])
async def test_nothing_that_was_flushed_is_lost_to_sigkill(tmp_path: Path, lives: int) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(SCRIPT),
        str(tmp_path / "events"),
        str(lives),
        str(lives),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    found = [json.loads(line) for line in out.splitlines()]
    assert len(found) == lives
    for life in found:
        seqs, flushed, acked = life["seqs"], life["flushed"], life["acked"]
        first, last = (seqs[0], seqs[-1]) if seqs else (max(acked) + 1, max(acked))
        assert seqs == list(range(first, last + 1)), life
        dropped = {seq for start, end in life["dropped"] for seq in range(start, end + 1)}
        assert not seqs or any(dropped.issuperset(range(one + 1, first)) for one in acked), (
            f"what comes before the first was acknowledged, or dropped by a full spool that says so: {life}"
        )
        assert last >= flushed, life
        assert life["mark"] == last, f"events and the marks that go with them are there together: {life}"
        assert life["damaged"] == 0, life
    assert sum(len(life["seqs"]) for life in found) > 10 * lives
    assert any(len(life["acked"]) == 2 for life in found), "some were killed while they acknowledged"
