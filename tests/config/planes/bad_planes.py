"""Planes that misbehave, each in its way. Written into a package of its own by the tests that load it."""

import ctypes
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hwd.model.plane import Action, Event, Grant, Intent, Job, Switch, Target, View

Act = Callable[[Any], Any]


class Plane:
    """Lets everybody go; `at` says where it does its `act`: in `targets`, or in `on`."""

    def __init__(self, act: Act, at: str) -> None:
        self.act, self.at = act, at

    def targets(self, job: Job, view: View) -> dict[str, Target]:
        self.view = view
        if self.at == "targets":
            self.act(self)
        return {"only": Target(links=view.topology("pairs"))}

    def on(self, event: Event) -> Any:
        if self.at == "on":
            found = self.act(self)
            if found is not None:
                return found
        return [Grant(ranks=(event.rank,))] if isinstance(event, Intent) else []


def loop(plane: Any) -> None:
    while True:
        pass


def take_memory(plane: Any) -> None:
    plane.kept = [bytearray(1 << 20) for _ in range(3 << 10)]


def flood(plane: Any) -> Iterator[Action]:
    while True:
        yield Switch(target="only")


def many_prints(plane: Any) -> None:
    for _ in range(10_000):
        sys.stdout.write("so it is\n")


class NoRepr(Exception):
    def __repr__(self) -> str:
        raise KeyError("no repr")


def raises(error: Exception) -> Act:
    def act(plane: Any) -> None:
        raise error

    return act


WRONG: Any = [1, 2]
ACTS: dict[str, Act] = {
    "loop": loop,
    "sleep": lambda plane: threading.Event().wait(30),
    "memory": take_memory,
    "flood": flood,
    "fork": lambda plane: os.fork(),
    "program": lambda plane: subprocess.run(["/bin/true"], check=True),
    "network": lambda plane: socket.create_connection(("127.0.0.1", 9)),
    "write": lambda plane: Path("/tmp/a-plane-was-here").write_text("x"),
    "read": lambda plane: Path("/etc/passwd").read_text(),
    "exit": lambda plane: sys.exit(3),
    "hard-exit": lambda plane: os._exit(3),
    "megabyte": raises(ValueError("x" * (1 << 20))),
    "no-repr": raises(NoRepr()),
    "no-values": lambda plane: [7],
    "half-value": lambda plane: [Grant(ranks=WRONG)],
    "none": lambda plane: 7,
    "close": lambda plane: os.closerange(3, 64),
    "garbage": lambda plane: [os.write(one, b"so it is\n") for one in sockets()],
    "kill-parent": lambda plane: os.kill(os.getppid(), 9),
    "segmentation-fault": lambda plane: ctypes.string_at(0),
    "late-topology": lambda plane: plane.view.topology("pairs"),
    "prints": many_prints,
}


def sockets() -> list[int]:
    """The descriptors of sockets of this process, the last one first: its connection."""
    names = sorted(map(int, os.listdir("/proc/self/fd")), reverse=True)
    return [one for one in names if os.path.exists(f"/proc/self/fd/{one}") and stat.S_ISSOCK(os.fstat(one).st_mode)][:1]
