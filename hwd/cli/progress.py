"""The progress bar of a run, for a terminal."""

from typing import Any, Self

import rich.progress
import typer
from rich.console import Console

from hwd.cli.output import seconds
from hwd.cli.run_steps import pause_reason
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

    def step(self, data: dict[str, Any]) -> None:
        """Count one `run.step`."""
        self._progress.update(self._bar, completed=data["done"])

    def state(self, data: dict[str, Any]) -> None:
        """Show one `run.state`."""
        stage = f" ({data['stage']})" if data["stage"] else ""
        left = f"about {seconds(data['expected_s'])} to go" if data["expected_s"] else ""
        words = pause_reason(data) or f"{data['what'] or ''}{stage}"
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
