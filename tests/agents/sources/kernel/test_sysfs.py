"""Files under a root that is laid out as /sys is."""

from pathlib import Path

import pytest

from hwd_agents.sources.kernel.sysfs import SysfsFiles
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import LinkError

STATE = "class/infiniband/mlx5_0/ports/1/state"


async def test_a_file_is_read_between_two_stamps_and_what_leads_out_is_refused(tmp_path: Path) -> None:
    files = SysfsFiles(SystemClock(), root=tmp_path)
    assert (await files.read_file(STATE)).text is None
    assert "no RDMA device here" in files.note.why_not
    (tmp_path / STATE).parent.mkdir(parents=True)
    (tmp_path / STATE).write_text("4: ACTIVE\n")
    files = SysfsFiles(SystemClock(), root=tmp_path)
    reading = await files.read_file(STATE)
    assert reading.text == "4: ACTIVE\n"
    assert reading.before_ns < reading.after_ns
    assert files.note.sees == ["rdma"]
    with pytest.raises(LinkError, match="cannot read: Is a directory"):
        await files.read_file("class")
    with pytest.raises(LinkError, match="leads out of"):
        await files.read_file("class/../../secret")
