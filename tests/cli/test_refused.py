"""What the command line refuses, with its words and its exit status: `refused.txt`."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from hwd.config.shipped import shipped

from ..answers import check_answers
from .test_command_table import PLAYBOOK

FILES = {
    "bad.yaml": "playbook: bad\nshows: x\nsteps:\n  - jump: 1\n",
    "fro.yaml": PLAYBOOK,
    "t.yaml": "topology: t\nlinks:\n  - h0.eth0 <-> h1.eth0\n",
    "scenario.yaml": "scenario: s\nfaults:\n  - {at_s: 0, switch: ocs9, fault: reset}\n",
    **{f"{name}.yaml": shipped("examples", name).read_text() for name in ("opus-testbed", "two-hosts")},
    "smoke.yaml": shipped("playbooks", "smoke").read_text(),
}


def test_what_cannot_be_is_refused_in_the_words_of_the_file(
    hwd: Any, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text)
    before = sorted(tmp_path.iterdir())

    def said(line: str, *more: str) -> list[str]:
        found = hwd(*shlex.split(line), *more)
        words = (found.out + found.err).replace(str(tmp_path), "HERE")
        words = words.replace(str(shipped("playbooks", "smoke").parent), "PLAYBOOKS")
        words = re.sub(r"it is [-\d]+ [:\d]+ now", "it is NOW", words)
        words = re.sub(r"(There are|known): .*", r"\1: ...", words)  # of models, settings and kinds, which become more
        lines = [line for line in words.splitlines() if line and "INFO    HTTP" not in line]
        return [f"exit {found.status}", *lines]

    def with_a_daemon(line: str) -> list[str]:
        request.getfixturevalue("daemon")
        return said(line)

    check_answers(
        Path(__file__).with_name("refused.txt"),
        {
            "without a daemon": said,
            "with a daemon": with_a_daemon,
            "on records": lambda line: said(line, "--data", data),
        },
    )
    assert sorted(tmp_path.iterdir()) == before, "nothing is written"
