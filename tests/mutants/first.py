"""A pytest plugin (`-p tests.mutants.first`): writes the name of the first test that fails into a file."""

import os
from pathlib import Path

import pytest

FIRST = "HWD_FIRST_FAILED"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    path = Path(os.environ[FIRST])
    if report.failed and not path.exists():
        path.write_text(report.nodeid, encoding="utf-8")
