"""What is on the leash ends with the tests, also where these are killed."""

import os
import select
import subprocess
import sys
from pathlib import Path

LEASH = Path(__file__).with_name("leash.py")
GONE_WITHIN_S = 10.0

STARTS = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-S", sys.argv[1], str(os.getpid()), "sh", "-c", "echo $$; exec sleep 1000"])
child.wait()
"""


def test_a_program_is_killed_with_the_tests_that_are_killed() -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", STARTS, str(LEASH)], stdout=subprocess.PIPE) as tests:
        assert tests.stdout is not None
        program = os.pidfd_open(int(tests.stdout.readline()))
        assert not select.select([program], [], [], 0)[0]
        tests.kill()
        assert select.select([program], [], [], GONE_WITHIN_S)[0]
        os.close(program)


def test_a_program_is_not_started_for_tests_that_are_gone() -> None:
    ended = subprocess.run([sys.executable, "-S", str(LEASH), "1", "echo", "started"], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "echo: the tests that started it, pid 1, are gone already\n"
