"""Runs followed to their end."""

import itertools
import os
import signal
from pathlib import Path

import pytest

from hwd.client import Event
from hwd.client.run_follower import state_in
from hwd.config.run_files.places import daemon_of
from hwd.model.kinds import UnreadFact
from hwd.model.run import RunState
from hwd.testing.lab import Lab
from hwd.testing.running_lab import RunningLab
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.errors import ProtocolError

from ..daemon.conftest import DESK

PLAYBOOK = """\
playbook: wait
shows: nothing
parameters: {times: 1, wait_s: 0.05}
steps:
  - lease: {ports: [ocs1.7], for_s: 60}
  - repeat: {times: "{{ times }}"}
    steps:
      - wait: {for_s: "{{ wait_s }}"}
"""


def event(told: Fact) -> Event:
    return Event(id="b.1", document=Document(at_ns=1, wall_ns=2, fact=told))


def test_a_state_that_this_version_cannot_read_is_an_error() -> None:
    """The end of the run might be missed else."""
    unread = UnreadFact(kind="run.state", fields={"run": "k3v9", "state": "evaporated"}, why="state")
    with pytest.raises(
        ProtocolError, match=r"run k3v9: cannot follow it: the daemon is of another version: run\.state"
    ):
        state_in(event(unread), "k3v9")
    assert state_in(event(UnreadFact(kind="run.joy", fields={})), "k3v9") is None
    of_another_run = UnreadFact(kind="run.state", fields={"run": "m2p0", "state": "evaporated"}, why="state")
    assert state_in(event(of_another_run), "k3v9") is None


def test_a_run_is_followed_over_a_pause_to_its_end(lab: Lab) -> None:
    client = lab.client
    states: list[RunState] = []
    with lab.handed_over():
        run = client.start_run(text=PLAYBOOK, file="wait.yaml", parameters={"times": "4", "wait_s": "0.2"}).id
        for now in client.follow(run):
            if now.state is RunState.RUNNING and now.step == 2 and RunState.PAUSED not in states:
                client.pause(run, by="me")
            if now.state is RunState.PAUSED:
                assert now.by == "me"
                client.resume(run, by="me")
            states.append(now.state)
    assert [state for state, _ in itertools.groupby(states)] == ["running", "paused", "running", "succeeded"]
    assert list(client.follow(run)) == [client.run_state(run)]


def test_a_queued_run_is_followed_until_it_is_taken_out(lab: Lab) -> None:
    client = lab.client
    run = client.start_run(text=PLAYBOOK, file="wait.yaml", due_wall_ns=2**62).id
    assert [one.run for one in client.queue()] == [run]
    states: list[RunState] = []
    for now in client.follow(run):
        states.append(now.state)
        if now.state is RunState.QUEUED:
            client.abort(run, by="me")
    assert states == [RunState.QUEUED, RunState.ABORTED]
    assert client.queue() == []


def test_a_run_is_followed_to_the_daemon_that_took_over_from_a_dead_one(tmp_path: Path) -> None:
    (tmp_path / "desk.yaml").write_text(DESK)
    running = RunningLab.on_twins(tmp_path / "desk.yaml")
    try:
        with running.connect() as client:
            before = client.url
            run = client.start_run(text=PLAYBOOK, file="wait.yaml", parameters={"wait_s": "50"}).id
            states: list[RunState] = []
            for now in client.follow(run):
                if now.step == 2 and now.state is RunState.RUNNING and client.url == before:
                    place = daemon_of("desk", running.environment)
                    assert place is not None
                    os.kill(place.pid, signal.SIGKILL)
                    running.start_daemon()
                states.append(now.state)
            assert states[-1] is RunState.CRASHED
            assert client.url != before
            assert client.run(run).outcome == "crashed"
    finally:
        running.close()
