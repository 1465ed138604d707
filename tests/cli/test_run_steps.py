"""What `hwd show` says of the way of a run and of its switches, from documents."""

import pytest

from hwd.cli.output import size
from hwd.cli.run_steps import NOT_ENDED, Step, folded, steps_of, switches_left
from hwd.model.documents.daemon import DaemonRecovered, JournalGivenUp, JournalOpen
from hwd.model.documents.runs import RunStep
from hwd_drivers.core.documents import Document, Fact

WALL_NS = 1_700_000_000_000_000_000


def told(fact: Fact) -> Document:
    return Document(at_ns=0, wall_ns=WALL_NS, fact=fact)


def step(number: int, what: str, state: str) -> Document:
    return told(RunStep(run="k3v9", step=number, what=what, state=state, done=0, total=2, expected_s=None))


def steps(*whats: str) -> list[Step]:
    return [Step(number=number, what=what, state="done") for number, what in enumerate(whats, start=1)]


WAY = [step(1, "lease", "started"), step(1, "lease", "done"), step(2, "apply ring", "started")]


@pytest.mark.parametrize(("ended", "state"), [(True, NOT_ENDED), (False, "started")])
def test_a_step_that_the_run_ended_in_did_not_end(ended: bool, state: str) -> None:
    assert [(one.number, one.state) for one in steps_of(WAY, ended=ended)] == [(1, "done"), (2, state)]


def test_rounds_that_repeat_are_shown_once_with_their_number() -> None:
    way = steps("lease", *["apply a", "apply b"] * 50, "note 1 pairs: 5 ms", *["apply c"] * 3, "note end")
    assert folded(way) == [
        ("1", "lease", "done", ""),
        ("2 to 101", "apply a", "done", "50 times"),
        ("2 to 101", "apply b", "done", "50 times"),
        ("102", "note 1 pairs: 5 ms", "done", ""),
        ("103 to 105", "apply c", "done", "3 times"),
        ("106", "note end", "done", ""),
    ]


def test_a_step_that_failed_is_not_folded_away() -> None:
    way = [*steps(*["apply a"] * 9), Step(number=10, what="apply a", state="failed")]
    assert folded(way)[-1] == ("10", "apply a", "failed", "")


@pytest.mark.parametrize("whats", [(), ("a",), ("a", "a"), ("a", "b", "a", "b"), ("a", "b", "c")])
def test_what_hardly_repeats_is_written_out(whats: tuple[str, ...]) -> None:
    assert [row[1] for row in folded(steps(*whats))] == [*whats]


OPEN = told(JournalOpen(reconfiguration="r1", run="k3v9", what="ring", why="ocs1: the switch is down"))
BACK = told(DaemonRecovered(reconfiguration="r1", run="k3v9", outcome="rolled-back", why=""))


def test_switches_that_were_brought_back_later_are_said_to_be() -> None:
    assert switches_left("unknown", [OPEN, BACK]).startswith("unknown at its end; brought back at ")
    assert switches_left("unknown", [OPEN, BACK]).endswith(":13:20")
    assert switches_left("unknown", [OPEN]) == "unknown at its end; not restored yet: ocs1: the switch is down"
    assert switches_left("unknown", []) == "unknown"


def test_switches_that_were_given_up_are_said_to_be_as_they_were() -> None:
    fact = JournalGivenUp(reconfiguration="r1", run="k3v9", what="ring", why="", by="ada", left=["ocs1: 1A-2B tuned"])
    expected = "unknown at its end; given up, and left as they were: ocs1: 1A-2B tuned"
    assert switches_left("unknown", [OPEN, told(fact)]) == expected


def test_switches_whose_state_was_known_keep_it() -> None:
    assert switches_left("before-apply", [OPEN, BACK]) == "before-apply"
    assert switches_left(None, []) == ""


@pytest.mark.parametrize(
    ("count", "shown"), [(1, "1 byte"), (435, "435 bytes"), (12_340, "12.3 kB"), (4_560_000, "4.56 MB")]
)
def test_a_size_has_the_unit_that_fits(count: int, shown: str) -> None:
    assert size(count) == shown
