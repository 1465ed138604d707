"""The files of dashboards/, and the programs that judge them."""

import shutil
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "dashboards"


@pytest.fixture(scope="session")
def folder() -> Path:
    return FOLDER


@pytest.fixture(scope="session")
def promtool() -> str:
    return found("promtool")


@pytest.fixture(scope="session")
def prometheus() -> str:
    return found("prometheus")


def found(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"no {program}: apt-get install prometheus")
    return path
