"""`hwd demo` as somebody runs it: from an empty folder, with its lines, its report and what it says of its time."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from hwd_drivers.core.own_python import own_python


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_demo_says_the_time_that_its_user_waited(tmp_path: Path) -> None:
    began_s = asyncio.get_running_loop().time()
    process = await asyncio.create_subprocess_exec(
        *own_python("-m", "hwd.cli", "demo", "--json"), cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    lines, at_s = [], []
    async for line in process.stderr:
        lines.append(line.decode().rstrip())
        at_s.append(asyncio.get_running_loop().time())
    result = json.loads(await process.stdout.read())
    assert await process.wait() == 0, lines
    took_s = asyncio.get_running_loop().time() - began_s

    times = re.fullmatch(r"demo: (\d+) s in all, (\d+) s of them for the report", lines[-1])
    assert times, lines
    whole_s, report_s = map(int, times.groups())
    assert at_s[-1] - at_s[0] - 0.5 <= whole_s <= took_s + 0.5, "both rounded; from its first line to its last at least"
    measured = max(at for line, at in zip(lines, at_s, strict=True) if line.startswith("demo: run "))
    assert report_s <= at_s[-1] - measured + 0.5
    assert Path(result["report"]) == tmp_path / "demo-report.html"
    assert {row["stage"] for row in result["stages"]} >= {"optical", "rdma"}
    assert {one.name for one in tmp_path.iterdir()} == {"demo-report.svg", "demo-report.html"}
