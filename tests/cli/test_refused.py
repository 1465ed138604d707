"""What the command line refuses, with its words and its exit status: `refused_*.txt`."""

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
    "jobs.yaml": (
        "playbook: jobs\nshows: x\nsteps:\n  - job: {name: trian}\n"
        "  - job: {name: train, arguments: [a]}\n  - job: {name: free, arguments: [a]}\n"
    ),
    "smoke.yaml": shipped("playbooks", "smoke").read_text(),
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
        words = words.replace(str(shipped("playbooks", "smoke").parent), "PLAYBOOKS")
        words = re.sub(r"it is [-\d]+ [:\d]+ now", "it is NOW", words)
        words = re.sub(r"(There are|known): .*", r"\1: ...", words)  # of models, settings and kinds, which become more
        lines = [line for line in words.splitlines() if line and "INFO    HTTP" not in line]
        return [f"exit {found.status}", *lines]

    check_answers(Path(__file__).with_name(f"refused_{scene}.txt"), {scene: said})
    assert sorted(tmp_path.iterdir()) == before, "nothing is written"
