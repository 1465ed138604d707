"""A pytest plugin (`-p tests.mutants.order`): runs the tests of a file's lines, in the order of the lines.

The tests of a room of the mutant come first there, and then those that take less. Names that are gone are left out.
The first that fails is written beside that file.
"""

import os
from pathlib import Path

import pytest

FILE = "HWD_TESTS_OF_MUTANT"


def failed(tests: Path) -> Path:
    """Where the name of the first that failed is, beside the file with the names of all."""
    return tests.with_suffix(".failed")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = Path(os.environ[FILE]).read_text(encoding="utf-8").splitlines()
    place = {name: number for number, name in enumerate(wanted)}
    left_out = [item for item in items if item.nodeid not in place]
    items[:] = sorted((item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid])
    config.hook.pytest_deselected(items=left_out)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    path = failed(Path(os.environ[FILE]))
    if report.failed and not path.exists():
        path.write_text(report.nodeid, encoding="utf-8")
