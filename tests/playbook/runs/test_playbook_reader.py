"""Playbooks that take long to read."""

import asyncio
from pathlib import Path

from hwd.daemon.installed_drivers import load
from hwd.playbook.playbook_reader import PlaybookReader
from hwd_drivers.core.offload import ThreadOffload

from ..runs.conftest import TESTBED

LONG = f"""\
playbook: long
steps:
  - sweep: {{i: {{from: 1, to: 100}}}}
    steps:
      - note: '{"{{i}}" * 390}'
"""


async def test_loop_turns_while_a_playbook_is_read(tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(TESTBED)
    offload = ThreadOffload(1)
    reader = PlaybookReader(load(tmp_path / "two.yaml").require(), offload)
    reading = asyncio.create_task(reader.read(LONG, file="long.yaml", parameters={}))
    turns = 0
    while not reading.done():
        turns += 1
        await asyncio.wait([reading], timeout=0.01)
    assert reading.result().total_steps == 100
    assert turns > 5
    offload.close()
