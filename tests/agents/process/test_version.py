"""The agent's own version is what importlib.metadata says, wherever it is installed."""

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from hwd_agents.process.version import own_version


def test_it_is_that_of_the_distribution() -> None:
    assert own_version() == version("hwd-agents")


def test_the_first_on_the_path_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "hwd_agents-7.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: hwd-agents\nVersion: 7.1.0\n\nVersion: of words\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert own_version() == version("hwd-agents") == "7.1.0"


def test_one_that_is_not_installed_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(PackageNotFoundError):
        own_version()
