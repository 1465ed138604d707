"""A pytest plugin: runs named tests in the order of the lines of a file, and writes the first that fails into another.

Names that are gone are left out; without a file of names all tests run.
"""

import os
from pathlib import Path

import pytest

FILE, FIRST = "HWD_TESTS_OF_MUTANT", "HWD_FIRST_FAILED"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if FILE in os.environ:
        wanted = Path(os.environ[FILE]).read_text(encoding="utf-8").splitlines()
        place = {name: number for number, name in enumerate(wanted)}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in place])
        items[:] = sorted((item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid])


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    path = Path(os.environ[FIRST])
    if report.failed and not path.exists():
        path.write_text(report.nodeid, encoding="utf-8")
