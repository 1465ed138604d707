"""What `hwd run` says on the way, against a server that answers by a script."""

import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterator

import pytest

from hwd.cli.follow import follow
from hwd.cli.output import Output
from hwd.client import Client
from hwd.model.run import AcceptedRun, RunState, RunStatus
from hwd.model.run_facts import RunNote, RunStep
from hwd_drivers.core.documents import Document, Fact

from ..client.conftest import Scripted, server

__all__ = ["server"]

END = RunStatus(
    run="k3v9", playbook="smoke", state=RunState.SUCCEEDED, steps=2, queued_wall_ns=1, safe_state="as-applied"
)
RUNNING = RunStatus(
    run="k3v9", playbook="smoke", state=RunState.RUNNING, steps=2, queued_wall_ns=1, what="dwell", expected_s=6.79
)
STARTED = AcceptedRun(
    run="k3v9", playbook="p", steps=2, state=RunState.RUNNING, due_wall_ns=None, waits_for=[], after="b.0"
)


def streamed(*facts: Fact) -> str:
    """The event stream until its connection ends."""
    documents = [Document(at_ns=1, wall_ns=2, fact=fact).to_data() for fact in facts]
    return "".join(f"event: document\nid: b.{at}\ndata: {json.dumps(one)}\n\n" for at, one in enumerate(documents, 1))


def followed(server: Scripted) -> RunStatus:
    with Client(server.url) as hwd:
        return follow(hwd, Output(json=False), STARTED)


@contextlib.contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch, *, keys: bytes) -> Iterator[list[bytes]]:
    """A terminal for stdin and stderr, at which `keys` were typed. The list has what was written to it, at its end."""
    ours, theirs = os.openpty()
    written: list[bytes] = []

    def read() -> None:
        with contextlib.suppress(OSError):  # the other side is closed
            while data := os.read(ours, 65536):
                written.append(data)

    reader = threading.Thread(target=read)
    reader.start()
    os.write(ours, keys)
    monkeypatch.setenv("TERM", "xterm")
    with open(theirs, "w") as stderr, open(theirs, closefd=False) as stdin, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stderr)
        patch.setattr(sys, "stdin", stdin)
        yield written
    reader.join()
    os.close(ours)


def step(number: int, what: str, state: str) -> Fact:
    return RunStep(run="k3v9", step=number, what=what, state=state, done=number - 1, total=2, expected_s=None)


def test_a_note_is_said_once_with_its_figures(server: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    text = "16 pairs took 12 ms"
    note = RunNote(run="k3v9", text=text)
    server.answers = [streamed(step(1, f"note {text}", "started"), note, step(1, f"note {text}", "done"), END)]
    assert followed(server) == END
    assert [line for line in capsys.readouterr().err.splitlines() if "pairs" in line] == [text]


def test_abort_by_ctrl_c_is_told_in_a_line_of_its_own(server: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answers = [streamed(RUNNING), streamed(END)]
    server.posted = json.dumps({"run": "k3v9", "outcome": "aborted", "why": "", "safe_state": "as-applied"})
    server.interrupts = 1
    with terminal(monkeypatch, keys=b"y\n") as written:
        assert followed(server) == END
    assert b"\r\x1b[2Kaborting run k3v9\r\n" in b"".join(written)
