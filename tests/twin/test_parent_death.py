"""An agent that is killed with its rack."""

import os
import subprocess
import sys
from pathlib import Path

from hwd.twin import parent_death

AGENT = """
import signal, sys

def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(print("in order", flush=True)))
    print("there", flush=True)
    signal.pause()
"""
"""Prints when it is ready, and when it gets SIGTERM."""
RACK = """
import os, subprocess, sys

subprocess.Popen([sys.executable, "-P", sys.argv[1], str(os.getpid()), "--config", "none"]).wait()
"""


def test_agent_of_a_killed_rack_dies_as_it_did_and_does_not_stop_in_order(tmp_path: Path) -> None:
    process = tmp_path / "hwd_agents" / "process"
    process.mkdir(parents=True)
    for folder in (process.parent, process):
        (folder / "__init__.py").write_text("")
    (process / "main.py").write_text(AGENT)
    command = [sys.executable, "-c", RACK, parent_death.__file__]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as rack:
        assert rack.stdout is not None
        assert rack.stdout.readline() == "there\n"
        rack.kill()
        assert rack.stdout.read() == "", "the agent's end closes it"
