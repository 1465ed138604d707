"""The files of dashboards/, and the program that judges them."""

import shutil
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "dashboards"


@pytest.fixture(scope="session")
def folder() -> Path:
    return FOLDER


@pytest.fixture(scope="session")
def promtool() -> str:
    path = shutil.which("promtool")
    if path is None:
        pytest.skip("no promtool: apt-get install prometheus")
    return path
