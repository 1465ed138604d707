"""A pytest plugin (`-p tests.mutants.order`): runs the tests of a file's lines, in the order of the lines.

Names that are gone are left out.
"""

import os
from pathlib import Path

import pytest

FILE = "HWD_TESTS_OF_MUTANT"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = Path(os.environ[FILE]).read_text(encoding="utf-8").splitlines()
    place = {name: number for number, name in enumerate(wanted)}
    left_out = [item for item in items if item.nodeid not in place]
    items[:] = sorted((item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid])
    config.hook.pytest_deselected(items=left_out)
