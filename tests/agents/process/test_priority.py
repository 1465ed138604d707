"""The priority of an agent's process."""

import os
import subprocess
import sys

import pytest


def asked(first: str) -> str:
    """What a process answers, and which policy it has then, after it did `first`."""
    code = (
        f"import os, resource; from hwd_agents.process.priority import ask_for_real_time as ask; {first}; "
        "print(ask(), os.sched_getscheduler(0))"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.root
def test_with_the_right_it_runs_before_others() -> None:
    assert asked("pass") == f"True {os.SCHED_RR | os.SCHED_RESET_ON_FORK}"


@pytest.mark.root
def test_without_the_right_it_goes_on_as_it_is() -> None:
    assert asked("resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0)); os.setuid(65534)") == f"False {os.SCHED_OTHER}"
