"""Exit statuses and words of what goes wrong before a daemon is asked."""

import errno
import json
import os
from importlib.metadata import version
from typing import Any

import pytest

from hwd.cli.run_command import run
from hwd.client import Client
from hwd_drivers.core.errors import (
    BugError,
    ConfigError,
    LinkError,
    NotReadyError,
    NotRolledBackError,
    RefusedError,
)


def test_the_version_is_said(hwd: Any) -> None:
    assert hwd("--version").out == f"hwd {version('hwd-daemon')}\n"


def test_a_defect_of_hwd_is_json_too_and_keeps_its_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def find(url: str | None) -> Client:
        raise BugError("run a: is not under way")

    monkeypatch.setattr(Client, "find", find)
    with pytest.raises(BugError):  # Python writes the traceback, and ends with exit status 1
        run(("status", "--json"))
    error = {"title": "bug", "detail": "run a: is not under way", "exit_status": 1}
    assert json.loads(capsys.readouterr().out) == {"error": error}
    with pytest.raises(BugError):
        run(("status",))
    assert capsys.readouterr().out == ""


def test_full_disk_where_nobody_expects_it_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def find(url: str | None) -> Client:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/hwd-demo-x/data")

    monkeypatch.setattr(Client, "find", find)
    assert run(("status", "--json")) == 1
    said = capsys.readouterr()
    why = "/tmp/hwd-demo-x/data: cannot be written: No space left on device. Free some room"
    assert json.loads(said.out)["error"]["detail"] == why
    assert said.err.endswith(f": {why}\n")
    assert said.err.count("\n") == 1


def test_exit_statuses_are_all_in_the_help(hwd: Any) -> None:
    words = " ".join(hwd("--help").out.split())
    for error in (ConfigError, RefusedError, LinkError, NotReadyError, NotRolledBackError):
        assert f"{error.exit_status} " in words.partition("Exit status:")[2]
