"""The daemon under test: virtual machines for it as a service, places for it as a process, virtual time for parts."""

import os
from pathlib import Path

import pytest

from ..machines.fixtures import machine_image, machines, pytest_collection_modifyitems, pytest_runtest_makereport

__all__ = ["machine_image", "machines", "pytest_collection_modifyitems", "pytest_runtest_makereport"]

DESK = """\
testbed: desk
switches:
  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: ideal, seed: 1}}
hosts: {}
fibres: []
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Of a daemon as a process."""
    keep = {name: value for name, value in os.environ.items() if not name.startswith("HWD_")}
    return {**keep, "HWD_RUN_DIR": str(tmp_path / "run"), "XDG_STATE_HOME": str(tmp_path / "state")}
