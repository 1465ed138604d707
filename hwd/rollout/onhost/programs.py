"""Runs programs on a host. This file is sent there: it needs nothing but Python."""

import json
import os
import subprocess
import sys
from typing import Any, Final

COMMAND_S: Final = 600.0
"""For any program; the longest, pip's, takes half a minute on a slow host."""


class Failure(Exception):
    """A step failed; the text is for the operator."""


def say(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def run(command: list[str], *, fails: bool = False) -> "subprocess.CompletedProcess[str]":
    """Raises Failure where it fails, but with `fails`, and where it does not end."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "PIP_CONFIG_FILE": os.devnull, "PYTHONNOUSERSITE": "1"}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            env=environment,
            check=False,
            close_fds=False,  # Python's own are not inherited; the lock of a verb is
        )
    except subprocess.TimeoutExpired:
        raise Failure(f"{' '.join(command[:3])}: did not end in {COMMAND_S:g} s. Is the host overloaded?") from None
    if done.returncode and not fails:
        raise Failure(f"{' '.join(command[:4])}: {last(done)}")
    return done


def last(done: "subprocess.CompletedProcess[str]") -> str:
    """The end of a program's output."""
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    errors = [line for line in lines if line.startswith("ERROR")]
    return " ".join(errors[-2:] or lines[-2:]) or f"it ended with {done.returncode}"
