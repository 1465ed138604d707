"""Follows a run to its end, over Ctrl-C and lost connections."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING

from hwd.cli.daemon import me
from hwd.cli.output import Output, seconds
from hwd.cli.run_steps import pause_reason
from hwd.model.run import RunStatus
from hwd.model.run_facts import RunNote, RunStep
from hwd_drivers.core.documents import Fact

if TYPE_CHECKING:
    from hwd.cli.progress import Progress
    from hwd.client import Client
    from hwd.model.run import AcceptedRun


def follow(hwd: "Client", output: Output, started: "AcceptedRun") -> RunStatus:
    """The final state, when the record has it. `started` is the answer to the start."""
    from hwd.client.run_follower import state_in

    after, run = started.after, started.run
    with _bar(output, started.steps) as bar:
        # what is written without the bar would stand in its line
        note = output.note if bar is None else bar.say
        teller = _Teller(run, note, bar)
        while True:
            try:
                with hwd.events(after=after, kinds=["run."], say=note) as events:
                    for event in events:
                        after = event.id
                        document = event.document
                        # its end may be among the missed events
                        status = hwd.run_state(run) if document is None else state_in(event, run)
                        if status is not None and status.state.ended:
                            return status
                        if document is not None:
                            teller.tell(document.fact)
            except KeyboardInterrupt:
                if bar is None or bar.ask(f"\nAbort run {run} and leave the switches in a safe state?"):
                    note(f"aborting run {run}")
                    hwd.abort(run, by=f"{me()}, Ctrl-C")


def _bar(output: Output, steps: int) -> "Progress | nullcontext[None]":
    if not output.on_terminal:
        return nullcontext()
    from hwd.cli.progress import Progress

    return Progress(steps)


class _Teller:
    """Shows the bar on a terminal; elsewhere a line a step, and one where the run waits, pauses or continues."""

    def __init__(self, run: str, note: Callable[[str], None], bar: "Progress | None") -> None:
        self._run = run
        self._note = note
        self._bar = bar
        self._said = ""

    def tell(self, fact: Fact) -> None:
        """Facts of other runs, and of other kinds, are left out."""
        match fact:
            case RunStatus(run=self._run) if self._bar is not None:
                self._bar.state(fact)
            case RunStatus(run=self._run):
                self._say(fact)
            case RunStep(run=self._run) if self._bar is not None:
                self._bar.step(fact)
            case RunStep(run=self._run):
                self._step(fact)
            case RunNote(run=self._run, text=text):
                self._note(text)

    def _step(self, step: RunStep) -> None:
        words = f"step {step.step} of {step.total}: {step.what}"
        if step.state == "started" and step.what.startswith("note "):
            return  # it is shown when it is written
        if step.state == "started":
            expected = f", about {seconds(step.expected_s)} to go" if step.expected_s else ""
            self._note(f"{words}{expected}")
        elif step.state == "failed":
            self._note(f"{words} failed")

    def _say(self, status: RunStatus) -> None:
        words = pause_reason(status.run, status.state, waits_for=status.waits_for, by=status.by)
        if words != self._said and (words or self._said):
            self._note(f"run {status.run} {words or 'continues'}")
        self._said = words
