"""Follows a run to its end, over Ctrl-C and lost connections."""

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from hwd.cli.commands.leases import me
from hwd.cli.output import Output, seconds
from hwd.cli.run_steps import pause_reason

if TYPE_CHECKING:
    from hwd.cli.progress import Progress
    from hwd.client import Client
    from hwd.model.run import RunStatus


def follow(hwd: "Client", output: Output, started: dict[str, Any]) -> "RunStatus":
    """The final state, when the record has it. `started` is the answer to the start."""
    from hwd.client.run_follower import state_in

    after, run = started["after"], started["run"]
    with _bar(output, started["steps"]) as bar:
        teller = _Teller(output, bar)
        # what is written without the bar would stand in its line
        note = output.note if bar is None else bar.say
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
                        if document is not None and document.data.get("run") == run:
                            teller.tell(document.kind, dict(document.data))
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

    def __init__(self, output: Output, bar: "Progress | None") -> None:
        self._output = output
        self._bar = bar
        self._said = ""

    def tell(self, kind: str, data: dict[str, Any]) -> None:
        match kind:
            case "run.state" if self._bar is not None:
                self._bar.state(data)
            case "run.state":
                self._say(data)
            case "run.step" if self._bar is not None:
                self._bar.step(data)
            case "run.step":
                self._step(data)
            case "run.note" if self._bar is not None:
                self._bar.say(str(data["text"]))
            case "run.note":
                self._output.note(str(data["text"]))

    def _step(self, step: dict[str, Any]) -> None:
        words = f"step {step['step']} of {step['total']}: {step['what']}"
        if step["state"] == "started" and step["what"].startswith("note "):
            return  # it is shown when it is written
        if step["state"] == "started":
            expected = f", about {seconds(step['expected_s'])} to go" if step["expected_s"] else ""
            self._output.note(f"{words}{expected}")
        elif step["state"] == "failed":
            self._output.note(f"{words} failed")

    def _say(self, status: dict[str, Any]) -> None:
        words = pause_reason(status)
        if words != self._said and (words or self._said):
            self._output.note(f"run {status['run']} {words or 'continues'}")
        self._said = words
