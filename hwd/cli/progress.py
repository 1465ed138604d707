"""Progress on a terminal: a line that changes, and the bar of a run."""

from typing import Self

import rich.progress
import typer
from rich.console import Console

from hwd.cli.output import seconds
from hwd.cli.run_steps import pause_reason
from hwd.model.run import RunStatus
from hwd.model.run_facts import RunStep
from hwd_drivers.core.printable import printable


class ProgressLine:
    """A line on stderr that changes, with the time since its start; other lines come above it."""

    def __init__(self, text: str) -> None:
        columns = rich.progress.SpinnerColumn(), _what(), rich.progress.TimeElapsedColumn()
        self._progress = rich.progress.Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task(printable(text), total=None)

    def start(self) -> None:
        self._progress.start()

    def stop(self) -> None:
        self._progress.stop()

    def show(self, text: str) -> None:
        """Put this text into the line."""
        self._progress.update(self._task, description=printable(text))

    def say(self, text: str) -> None:
        """Print a line above it."""
        self._progress.console.print(printable(text), markup=False, highlight=False)


class Progress(ProgressLine):
    """The bar of a run: steps done, the step and stage under way, the remaining time. Use it as a context."""

    def __init__(self, steps: int) -> None:
        self._progress = rich.progress.Progress(
            rich.progress.TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            rich.progress.BarColumn(),
            _what(),
            rich.progress.TimeElapsedColumn(),
            rich.progress.TextColumn("{task.fields[left]}", markup=False),
            console=Console(stderr=True),
        )
        self._task = self._progress.add_task("", total=steps, left="")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def step(self, step: RunStep) -> None:
        """Count it."""
        self._progress.update(self._task, completed=step.done)

    def state(self, status: RunStatus) -> None:
        """Show it."""
        stage = f" ({status.stage})" if status.stage else ""
        left = f"about {seconds(status.expected_s)} to go" if status.expected_s else ""
        reason = pause_reason(status.run, status.state, waits_for=status.waits_for, by=status.by)
        words = reason or f"{status.what or ''}{stage}"
        self._progress.update(self._task, description=printable(words), left=left)

    def ask(self, question: str) -> bool:
        """Yes or no; another Ctrl-C is a yes."""
        self._progress.stop()
        try:
            return typer.confirm(question, default=True, err=True)
        except typer.Abort:
            return True
        finally:
            self._progress.start()


def _what() -> rich.progress.TextColumn:
    return rich.progress.TextColumn("{task.description}", markup=False)
