"""The state of runs, from the documents of their runners and reconfigurations."""

import pytest
from msgspec.structs import replace

from hwd.model.documents.reconfigurations import ReconfigurationEnded, ReconfigurationState
from hwd.model.documents.runs import RunStep
from hwd.model.kinds import UnreadFact, read_fact
from hwd.model.run import RunState, RunStatus
from hwd.playbook.board import ENDED_KEPT, Board
from hwd_drivers.core.documents import Document, Fact

RUN = RunStatus(run="k3v9", playbook="smoke", state=RunState.RUNNING, steps=3, queued_wall_ns=1, started_wall_ns=2)


@pytest.fixture
def told() -> list[RunStatus]:
    return []


@pytest.fixture
def paused() -> dict[str, str]:
    """Who asked which run to pause."""
    return {}


@pytest.fixture
def board(told: list[RunStatus], paused: dict[str, str]) -> Board:
    made = Board(run_of={"r1": "k3v9"}.get, paused_by=paused.get, tell=told.append)
    made.put(RUN)
    told.clear()
    return made


def hear(board: Board, fact: Fact) -> None:
    board(Document(at_ns=0, wall_ns=0, fact=fact))


def step(board: Board, number: int, state: str, *, run: str = "k3v9", expected_s: float = 40.0) -> None:
    done = number - (state != "done")
    what = f"do {number}"
    hear(board, RunStep(run=run, step=number, what=what, state=state, done=done, total=3, expected_s=expected_s))


def test_state_follows_steps_and_stages(board: Board, told: list[RunStatus]) -> None:
    step(board, 1, "started")
    for state in ("planned", "journaled", "driving", "read-back", "driven", "waiting"):
        hear(board, ReconfigurationState(reconfiguration="r1", state=state))
    assert [one.stage for one in told] == [None, "journaled", "driving", "read-back", "waiting"]
    assert str(told[-1]) == "run k3v9 running 1/3 do 1 (waiting), 40 s left"
    hear(board, ReconfigurationEnded(reconfiguration="r1", run="k3v9", outcome="confirmed", why="", seconds=1.0))
    step(board, 1, "done", expected_s=30.0)
    step(board, 2, "started", expected_s=30.0)
    assert [(one.step, one.stage, one.expected_s) for one in told[5:]] == [(1, None, 40.0), (2, None, 30.0)]


def test_reconfigurations_of_others_change_nothing(board: Board, told: list[RunStatus]) -> None:
    hear(board, ReconfigurationState(reconfiguration="r2", state="driving"))
    step(board, 1, "started", run="other")
    assert told == []


def test_run_is_paused_when_it_stands_at_a_border(board: Board, told: list[RunStatus], paused: dict[str, str]) -> None:
    step(board, 1, "started")
    paused["k3v9"] = "ada"
    board.look("k3v9")
    assert [one.state for one in told] == ["running"], "the step is still under way"
    step(board, 1, "done")
    assert (told[-1].state, told[-1].by, told[-1].step) == (RunState.PAUSED, "ada", 1)
    assert str(told[-1]) == "run k3v9 paused 1/3 do 1, by ada, 40 s left"
    del paused["k3v9"]
    board.look("k3v9")
    assert (told[-1].state, told[-1].by) == (RunState.RUNNING, None)


def test_pause_between_two_steps_is_at_once(board: Board, told: list[RunStatus], paused: dict[str, str]) -> None:
    step(board, 1, "started")
    step(board, 1, "done")
    paused["k3v9"] = "ada"
    board.look("k3v9")
    assert told[-1].state is RunState.PAUSED


def test_run_of_branches_is_paused_when_the_last_of_them_stands(
    board: Board, told: list[RunStatus], paused: dict[str, str]
) -> None:
    step(board, 1, "started")
    step(board, 2, "started")
    paused["k3v9"] = "ada"
    step(board, 1, "done")
    step(board, 2, "done")
    assert [one.state for one in told] == ["running", "running", "paused"]


def test_run_whose_last_step_is_done_is_not_paused_any_more(
    board: Board, told: list[RunStatus], paused: dict[str, str]
) -> None:
    step(board, 3, "started")
    paused["k3v9"] = "ada"
    step(board, 3, "done")
    assert [one.state for one in told] == ["running"]


def test_only_the_last_that_ended_are_kept(board: Board) -> None:
    ended = [replace(RUN, run=f"e{n}", state=RunState.SUCCEEDED) for n in range(ENDED_KEPT + 2)]
    board.load(ended[:1])
    for status in ended[1:]:
        board.put(status)
    assert [status.run for status in board.all] == [*(f"e{n}" for n in range(2, ENDED_KEPT + 2)), "k3v9"]
    assert board.get("e1") is None
    assert [status.run for status in board.live] == ["k3v9"]


def test_status_goes_through_json_whole() -> None:
    status = replace(
        RUN, state=RunState.FAILED, fault_class="not ready in time", why="x", rolled_back=True, waits_for=("run a",)
    )
    assert read_fact("run.state", {**status.to_data(), "of a newer hwd": 1}) == status
    assert str(status) == "run k3v9 failed (x), rolled back"
    for broken in ({}, {**status.to_data(), "state": "dancing"}):
        assert isinstance(read_fact("run.state", broken), UnreadFact)


def test_queued_run_says_for_what_it_waits() -> None:
    status = replace(RUN, state=RunState.QUEUED, waits_for=("run a", "run b"))
    assert str(status) == "run k3v9 queued, waits for run a, run b"
