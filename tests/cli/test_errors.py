"""Exit statuses and words of what goes wrong before a daemon is asked."""

import errno
import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from hwd.cli.run_command import run, text_of
from hwd.client import Client
from hwd_drivers.core.errors import (
    BugError,
    ConfigError,
    HwdError,
    LinkError,
    NotReadyError,
    NotRolledBackError,
    RefusedError,
)


def test_the_version_is_said(hwd: Any) -> None:
    assert hwd("--version").out == f"hwd {version('hwd-daemon')}\n"


@pytest.mark.parametrize("arguments", [("nonsense",), ("apply", "x", "--mode", "brave"), ("status", "--no"), ("show",)])
def test_usage_errors_are_bad_input(hwd: Any, arguments: tuple[str, ...]) -> None:
    said = hwd(*arguments)
    assert said.status == 2
    assert "Try 'hwd" in said.err
    assert said.out == ""


def test_without_a_daemon_it_says_what_to_do(hwd: Any) -> None:
    said = hwd("status")
    assert said.status == 4
    assert said.out == ""
    assert said.err == (
        "hwd: unreachable: no daemon of this user runs on this machine. "
        "Start one with `hwd serve TESTBED`, or name one with --url or HWD_URL\n"
    )


def test_an_error_is_json_where_json_was_asked_for(hwd: Any) -> None:
    said = hwd("status", "--json")
    assert said.status == 4
    assert said.json["error"]["exit_status"] == 4
    assert said.json["error"]["title"] == "unreachable"


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


def test_every_problem_of_a_file_is_said_with_its_line(hwd: Any, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("testbed: bad\nswitchs: {}\nhosts: {}\nfibres:\n  - h0.eth0 <-> ocs1.1\n")
    said = hwd("check", str(file))
    assert said.status == 2
    assert f"{file}:2: switchs: unknown key; did you mean switches?" in said.out
    assert f"{file}:5: " in said.out
    assert hwd("check", str(file), "--json").json[0]["line"] == 2


def test_a_sound_file_passes(hwd: Any) -> None:
    from hwd.config.shipped import shipped

    said = hwd("check", str(shipped("examples", "opus-testbed")))
    assert (said.status, said.out) == (0, "")
    assert said.err == "1 file: 0 errors, 0 warnings\n"


def test_a_file_that_is_not_there_is_bad_input(hwd: Any) -> None:
    assert hwd("check", "/nowhere.yaml").status == 2
    assert hwd("plan", "/nowhere.yaml").status in (2, 4)
    assert hwd("run", "/nowhere.yaml").status == 2
    assert hwd("runs", "--data", "/nowhere").status == 2


def test_a_parameter_needs_its_value(hwd: Any, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("playbook: p\nshows: x\nsteps: []\n")
    said = hwd("run", str(tmp_path / "p.yaml"), "-D", "repeats")
    assert said.status == 2
    assert "-D name=value" in said.err


def test_a_model_that_nobody_knows_is_named_with_those_that_are(hwd: Any) -> None:
    said = hwd("twin", "serve", "polaris", "--listen", "127.0.0.1:0")
    assert said.status == 2
    assert "polatis-6000" in said.err


@pytest.mark.parametrize("setting", ["size", "size=3.5", "seed=x", "timing=warp", "nonsense=1"])
def test_a_bad_setting_of_a_twin_is_bad_input(hwd: Any, setting: str) -> None:
    said = hwd("twin", "serve", "polatis-6000", "--listen", "127.0.0.1:0", "--set", "size=8x8", "--set", setting)
    assert said.status == 2


@pytest.mark.parametrize(
    ("kind", "remark"),
    [("run.stat", "did you mean run.state?"), ("run", "did you mean run.?"), ("nonsense", "known: ")],
)
def test_watch_refuses_a_kind_that_nothing_has(hwd: Any, kind: str, remark: str) -> None:
    said = hwd("watch", "--kind", "timeline", "--kind", kind)
    assert said.status == 2
    assert f"--kind {kind}: no such kind; {remark}" in said.err


@pytest.mark.parametrize("kind", ["run.", "run.state", "timeline"])
def test_watch_takes_kinds_and_the_beginning_of_kinds(hwd: Any, kind: str) -> None:
    assert hwd("watch", "--kind", kind).status == 4  # no daemon runs


@pytest.mark.parametrize(
    ("command", "file", "finding"),
    [
        ("serve", "playbooks/smoke", "is a playbook, not a testbed: run it with `hwd run {}`"),
        ("run", "examples/opus-testbed", "is a testbed, not a playbook: serve it with `hwd serve {}`"),
    ],
)
def test_a_file_of_another_kind_is_one_line_with_the_command_for_it(
    hwd: Any, command: str, file: str, finding: str
) -> None:
    from hwd.config.shipped import shipped

    path = shipped(*file.split("/"))
    said = hwd(command, str(path))
    assert said.status == 2
    assert said.err.startswith(f"hwd: bad input: {path}:")
    assert said.err.endswith(f": {finding.format(path)}\n")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConfigError("2 daemons run\n  --url a\n  --url b"), "hwd: bad input: 2 daemons run\n  --url a\n  --url b"),
        (ConfigError("f:1: x\nf:2: y"), "hwd: bad input: 2 problems:\nf:1: x\nf:2: y"),
        (ConfigError("f:1: x"), "hwd: bad input: f:1: x"),
        (RefusedError("no"), "hwd: refused: no"),
    ],
    ids=["a finding with its choices", "several problems", "one", "refused"],
)
def test_every_error_begins_with_the_name_of_the_program(error: HwdError, text: str) -> None:
    assert text_of(error) == text


def test_exit_statuses_are_all_in_the_help(hwd: Any) -> None:
    words = " ".join(hwd("--help").out.split())
    for error in (ConfigError, RefusedError, LinkError, NotReadyError, NotRolledBackError):
        assert f"{error.exit_status} " in words.partition("Exit status:")[2]
