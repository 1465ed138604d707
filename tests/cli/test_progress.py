"""What commands say on the way: the steps of an apply, its state, and that work is under way."""

from pathlib import Path

import pytest

from hwd.cli.apply_progress import ApplyProgress
from hwd.cli.output import Output
from hwd.client.reconfiguration_follower import ReconfigurationFollower
from hwd.config.shipped_file import shipped_file
from hwd.model.document_list import DocumentJson, DocumentList
from hwd.model.reconfiguration import ReconfigurationState, ReconfigurationStep
from hwd_drivers.core.documents import Document, Fact

from ..texts import links_of
from .conftest import seen_on_a_terminal


def step(number: int, state: str, *, id: str = "r1", made: int = 1) -> ReconfigurationStep:
    links = [f"h0.eth{port}<->h1.eth{port}" for port in range(made)]
    return ReconfigurationStep(reconfiguration=id, step=number, steps=2, state=state, made=links_of(*links), dark=[])


def state(name: str, *, id: str = "r1") -> ReconfigurationState:
    return ReconfigurationState(reconfiguration=id, state=name)


def found(*facts: Fact, last: str = "b.9") -> DocumentList:
    sent = [DocumentJson.of(Document(at_ns=1, wall_ns=2, fact=fact)) for fact in facts]
    return DocumentList(last=last, missed=0, sent=sent)


def test_without_a_terminal_only_steps_and_long_states_have_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with ApplyProgress(Output(json=False), "k3v9") as progress:
        for fact in (state("driving"), step(1, "done"), state("waiting"), state("waiting"), state("rolling-back")):
            progress.tell(fact)
    said = capsys.readouterr()
    assert said.err == "step 1 of 2 is done\nwaits for ready links\ngoes back to the state before\n"
    assert said.out == ""


def test_a_follower_tells_every_step_and_the_present_state_of_its_reconfiguration_alone() -> None:
    told: list[Fact] = []
    follower = ReconfigurationFollower("r1", told.append, "b.1")
    follower.take(
        found(state("driving"), step(1, "begun", id="r2"), state("read-back"), state("x", id="r2")), is_over=False
    )
    assert told == [state("read-back")], "a state that is past is no news"
    assert follower.after == "b.9"
    follower.take(
        found(step(1, "begun"), state("waiting"), step(1, "done"), step(2, "begun"), state("waiting")), is_over=True
    )
    assert told[1:] == [step(1, "begun"), step(1, "done"), step(2, "begun")], "with the answer no state is present"


# --- on a terminal


@pytest.mark.usefixtures("places")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sim", "--seed", "2"), b"playing seed 2"),
        (("check", str(shipped_file("examples", "two-hosts"))), b"reading files"),
    ],
)
def test_a_long_command_says_what_it_does(arguments: tuple[str, ...], words: bytes) -> None:
    assert words in seen_on_a_terminal(*arguments)


@pytest.mark.usefixtures("places")
def test_install_service_says_that_it_reads(tmp_path: Path) -> None:
    words = ("install-service", str(shipped_file("examples", "two-hosts")), "--units", str(tmp_path), "--uninstall")
    seen = seen_on_a_terminal(*words, status=2)
    assert seen.index(b"reading ") < seen.index(b"there is no such unit")
