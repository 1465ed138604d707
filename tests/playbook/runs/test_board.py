"""The state of runs, from the documents of their runners and reconfigurations; the order in which they start."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hwd.model.kinds import UnreadFact, read_fact
from hwd.model.reconfiguration import ReconfigurationEnded, ReconfigurationState
from hwd.model.run import RunState, RunStatus
from hwd.model.run_facts import RunStep
from hwd.playbook.board import ENDED_KEPT, Board
from hwd.playbook.queue import ITS_TIME, Queue, WaitingRun
from hwd.playbook.runner import Runner
from hwd.ports.claim import Claim, holder_of
from hwd.ports.ledger import Ledger
from hwd.ports.rules import Reason
from hwd.records.queue_table import QueuedRun
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


def test_state_follows_steps_and_stages_of_its_own_run(board: Board, told: list[RunStatus]) -> None:
    hear(board, ReconfigurationState(reconfiguration="r2", state="driving"))
    step(board, 1, "started", run="other")
    assert told == []
    step(board, 1, "started")
    for state in ("planned", "journaled", "driving", "read-back", "driven", "waiting"):
        hear(board, ReconfigurationState(reconfiguration="r1", state=state))
    assert [one.stage for one in told] == [None, "journaled", "driving", "read-back", "waiting"]
    assert str(told[-1]) == "run k3v9 running 1/3 do 1 (waiting), 40 s left"
    hear(board, ReconfigurationEnded(reconfiguration="r1", run="k3v9", outcome="confirmed", why="", seconds=1.0))
    step(board, 1, "done", expected_s=30.0)
    step(board, 2, "started", expected_s=30.0)
    assert [(one.step, one.stage, one.expected_s) for one in told[5:]] == [(1, None, 40.0), (2, None, 30.0)]


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
    paused["k3v9"] = "ada"
    board.look("k3v9")
    assert told[-1].state is RunState.PAUSED, "between two steps it is at once"


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


def test_status_goes_through_json_whole_and_a_queued_run_says_for_what_it_waits() -> None:
    status = replace(
        RUN, state=RunState.FAILED, fault_class="not ready in time", why="x", rolled_back=True, waits_for=("run a",)
    )
    assert read_fact("run.state", {**status.to_data(), "of a newer hwd": 1}) == status
    assert str(status) == "run k3v9 failed (x), rolled back"
    for broken in ({}, {**status.to_data(), "state": "dancing"}):
        assert isinstance(read_fact("run.state", broken), UnreadFact)
    status = replace(RUN, state=RunState.QUEUED, waits_for=("run a", "run b"))
    assert str(status) == "run k3v9 queued, waits for run a, run b"


def asked(id: str, ports: str, from_wall_ns: int = 0) -> WaitingRun:
    queued = QueuedRun(id=id, playbook="", playbook_text="", file="", parameters={}, queued_wall_ns=from_wall_ns)
    return WaitingRun(queued=queued, runner=cast("Runner", SimpleNamespace(ports=frozenset(ports), span_s=0.0)))


def active(run: str, ports: Iterable[str]) -> Claim:
    return Claim(id=run, reason=Reason.RUN, owner=holder_of(run), ports=frozenset(ports), run=run)


def queue_of(*runs: WaitingRun, ledger: Ledger | None = None) -> Queue:
    queue = Queue(ledger or Ledger())
    for run in runs:
        queue.add(run)
    return queue


def test_ports_pass_by_and_one_whose_time_has_not_come_holds_nobody_back() -> None:
    ledger = Ledger()
    ledger.claim(active("now", "a"))
    queue = queue_of(asked("one", "ab"), asked("two", "c"), ledger=ledger)
    assert queue.look(0) == {"one": ("run now",), "two": ()}
    ledger = Ledger()
    ledger.claim(active("now", "a"))
    queue = queue_of(asked("one", "ab"), asked("two", "b"), ledger=ledger)
    assert queue.look(0) == {"one": ("run now",), "two": ("run one",)}
    queue = queue_of(asked("late", "a", 10), asked("one", "a"))
    assert queue.look(5) == {"one": (), "late": (ITS_TIME,)}
    assert queue.look(10) == {"one": (), "late": ("run one",)}
    assert (queue.next_wall_ns(5), queue.next_wall_ns(10)) == (10, None)
    queue = queue_of(asked("c", "a", 7), asked("b", "a", 3), asked("a", "a", 7))
    assert [run.id for run in queue.waiting] == ["b", "c", "a"]
    queue = queue_of(asked("one", "a"), asked("two", "a"))
    queue.remove("one")
    assert queue.get("one") is None
    assert queue.look(0) == {"two": ()}


runs = st.lists(
    st.builds(
        asked, st.uuids().map(str), st.sets(st.sampled_from("abcd")).map("".join), st.integers(min_value=0, max_value=5)
    ),
    max_size=12,
)


@given(runs)
def test_all_runs_are_done_and_never_two_with_a_port_in_common(several: list[WaitingRun]) -> None:
    ledger = Ledger()
    queue = queue_of(*several, ledger=ledger)
    going: dict[str, frozenset[str]] = {}
    now, done = 0, []
    while queue.waiting or going:
        ready = [run for run, waits_for in queue.look(now).items() if not waits_for]
        if ready:
            run = queue.get(ready[0])
            assert run is not None
            assert not any(run.ports & ports for ports in going.values())
            queue.remove(run.id)
            going[run.id] = run.ports
            ledger.claim(active(run.id, run.ports))
        elif going:
            done.append(next(iter(going)))
            del going[done[-1]]
            ledger.release(Reason.RUN, done[-1])
        else:
            due = queue.next_wall_ns(now)
            assert due is not None, "somebody waits for nothing"
            now = due
    assert sorted(done) == sorted(run.id for run in several)
