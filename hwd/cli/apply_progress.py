"""The progress of an apply: its steps and its state, while the answer is waited for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from hwd.cli.output import Output
from hwd.model.plural import plural
from hwd.model.reconfiguration import ReconfigurationState, ReconfigurationStep

if TYPE_CHECKING:
    from hwd.cli.progress import ProgressLine

WORDS = {
    "journaled": "drives the switches",
    "driving": "drives the switches",
    "read-back": "reads the switches back",
    "driven": "reads the switches back",
    "waiting": "waits for ready links",
    "rolling-back": "goes back to the state before",
}
"""What is done in a state; the other ones take no time, or the answer says them."""
LONG = ("waiting", "rolling-back")
"""States that have a line of their own where there is no terminal."""
NAMED = 4
"""Links named in the line of a step."""


class ApplyProgress:
    """The progress of an apply: on a terminal one line on stderr that changes, with what is done and the time since the
    start. The steps of a plan have a line each, there and elsewhere. Use it as a context.

    `subject`: what is applied.
    """

    def __init__(self, output: Output, subject: str) -> None:
        self._output = output
        self._subject = subject
        self._said = ""
        self._line = _line(f"applying {subject}") if output.on_terminal else None

    def __enter__(self) -> Self:
        if self._line is not None:
            self._output.note(f"applying {self._subject}; Ctrl-C rolls back")
            self._line.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._line is not None:
            self._line.stop()

    def tell(self, fact: ReconfigurationState | ReconfigurationStep) -> None:
        """Show it."""
        match fact:
            case ReconfigurationStep():
                self._note(step_line(fact))
            case ReconfigurationState(state=state) if state in WORDS and WORDS[state] != self._said:
                self._said = WORDS[state]
                if self._line is not None:
                    self._line.show(self._said)
                elif state in LONG:
                    self._note(self._said)

    def _note(self, text: str) -> None:
        (self._output.note if self._line is None else self._line.say)(text)


def step_line(step: ReconfigurationStep) -> str:
    """`step 1 of 3 begins: makes h0.eth0<->h1.eth0, dark meanwhile h0.eth0<->h2.eth0`."""
    name = f"step {step.step} of {step.steps}"
    if step.state != "begun":
        return f"{name} is done"
    makes = f"makes {_few(step.made)}" if step.made else "makes no link"
    return f"{name} begins: {makes}, dark meanwhile {_few(step.dark) if step.dark else 'none'}"


def _few(links: Sequence[str]) -> str:
    more = len(links) - NAMED
    return ", ".join(links[:NAMED]) + (f" and {plural(more, 'link')} more" if more > 0 else "")


def _line(text: str) -> "ProgressLine":
    from hwd.cli.progress import ProgressLine

    return ProgressLine(text)
