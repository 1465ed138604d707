"""The progress bar of a run, for a terminal."""

from typing import Self

import rich.progress
import typer
from rich.console import Console

from hwd.cli.output import seconds
from hwd.cli.run_steps import pause_reason
from hwd.model.run import RunStatus
from hwd.model.run_facts import RunStep
from hwd_drivers.core.printable import printable


class Progress:
    """A bar on stderr: steps done, the step and stage under way, the remaining time. Use it as a context."""

    def __init__(self, steps: int) -> None:
        self._progress = rich.progress.Progress(
            rich.progress.TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            rich.progress.BarColumn(),
            rich.progress.TextColumn("{task.description}", markup=False),
            rich.progress.TimeElapsedColumn(),
            rich.progress.TextColumn("{task.fields[left]}", markup=False),
            console=Console(stderr=True),
        )
        self._bar = self._progress.add_task("", total=steps, left="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def step(self, step: RunStep) -> None:
        """Count it."""
        self._progress.update(self._bar, completed=step.done)

    def state(self, status: RunStatus) -> None:
        """Show it."""
        stage = f" ({status.stage})" if status.stage else ""
        left = f"about {seconds(status.expected_s)} to go" if status.expected_s else ""
        reason = pause_reason(status.run, status.state, waits_for=status.waits_for, by=status.by)
        words = reason or f"{status.what or ''}{stage}"
        self._progress.update(self._bar, description=printable(words), left=left)

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._progress.console.print(printable(text), markup=False, highlight=False)

    def ask(self, question: str) -> bool:
        """Yes or no; another Ctrl-C is a yes."""
        self._progress.stop()
        try:
            return typer.confirm(question, default=True, err=True)
        except typer.Abort:
            return True
        finally:
            self._progress.start()
