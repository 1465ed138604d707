"""The program `ip` in a namespace of a keeper."""

import os
import subprocess

from hwd.twin.kernel import Keeper, Privilege


def run_ip(keeper: Keeper, *arguments: str) -> str:
    """Run it in h0, as whoever runs the tests; returns what it writes."""
    namespace = keeper.namespace("h0")
    user = [f"--user=/proc/{keeper.pid}/ns/user", "--preserve-credentials"]
    enter = ["nsenter", *(user if keeper.privilege is Privilege.USER else []), f"--net=/proc/self/fd/{namespace}"]
    try:
        done = subprocess.run(
            [*enter, "ip", *arguments], pass_fds=[namespace], capture_output=True, text=True, check=False
        )
    finally:
        os.close(namespace)
    assert done.returncode == 0, done.stderr
    return done.stdout
