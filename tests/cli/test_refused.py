"""What the command line refuses, with its words and its exit status: `refused_*.txt`; and its own errors."""

import errno
import json
import os
import re
import shlex
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from hwd.cli.run_command import run
from hwd.client import Client
from hwd.config.shipped_file import shipped_file
from hwd_drivers.core.errors import BugError, ConfigError, LinkError, NotReadyError, NotRolledBackError, RefusedError

from ..answers import check_answers
from .test_command_table import PLAYBOOK

FILES = {
    "bad.yaml": "playbook: bad\nshows: x\nsteps:\n  - jump: 1\n",
    "fro.yaml": PLAYBOOK,
    "t.yaml": "topology: t\nlinks:\n  - h0.eth0 <-> h1.eth0\n",
    "scenario.yaml": "scenario: s\nfaults:\n  - {at_s: 0, switch: ocs9, fault: reset}\n",
    **{f"{name}.yaml": shipped_file("examples", name).read_text() for name in ("opus-testbed", "two-hosts")},
    "jobs.yaml": (
        "playbook: jobs\nshows: x\nsteps:\n  - job: {name: trian}\n"
        "  - job: {name: train, arguments: [a]}\n  - job: {name: free, arguments: [a]}\n"
    ),
    "smoke.yaml": shipped_file("playbooks", "smoke").read_text(),
}


@pytest.mark.parametrize("scene", ["alone", "with_a_daemon", "on_records"])
def test_what_cannot_be_is_refused_in_the_words_of_the_file(
    hwd: Any, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, scene: str
) -> None:
    if scene == "with_a_daemon":
        request.getfixturevalue("daemon")
    monkeypatch.chdir(tmp_path)
    jobs = "".join(
        f"  {name}: {{command: [/bin/true], user: lab, hosts: [h0, h1], plane: static topology=ring{more}}}\n"
        for name, more in (("train", ""), ("free", ", arguments: true"))
    )
    for name, text in (FILES | {"two-jobs.yaml": f"{FILES['two-hosts.yaml']}\njobs:\n{jobs}"}).items():
        Path(name).write_text(text)
    before = sorted(tmp_path.iterdir())

    def said(line: str) -> list[str]:
        found = hwd(*shlex.split(line), *(("--data", data) if scene == "on_records" else ()))
        words = (found.out + found.err).replace(str(tmp_path), "HERE")
        words = words.replace(str(shipped_file("playbooks", "smoke").parent), "PLAYBOOKS")
        words = re.sub(r"it is [-\d]+ [:\d]+ now", "it is NOW", words)
        words = re.sub(r"(There are|known): .*", r"\1: ...", words)  # of models, settings and kinds, which become more
        lines = [line for line in words.splitlines() if line and "INFO    HTTP" not in line]
        return [f"exit {found.status}", *lines]

    check_answers(Path(__file__).with_name(f"refused_{scene}.txt"), {scene: said})
    assert sorted(tmp_path.iterdir()) == before, "nothing is written"


# --- errors, with exit statuses


def test_the_version_is_said(hwd: Any) -> None:
    assert hwd("--version").out == f"hwd {version('hwd-daemon')}\n"


def test_a_defect_of_hwd_is_json_too_and_keeps_its_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def find(url: str | None, *, testbed: str | None = None) -> Client:
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
    def find(url: str | None, *, testbed: str | None = None) -> Client:
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
