"""Limits on the cost of reading one playbook. All that sweeps and includes expand to is counted, whether it
is valid or not.
"""

from dataclasses import dataclass

WRITTEN_MAX = 10_000
"""Steps and rounds that sweeps and includes expand to; repeats are not expanded."""
CHARACTERS_MAX = 10_000_000
"""Characters that sweeps and includes expand to: limits the reading of any playbook to some seconds and
some tens of megabytes.
"""
VALUE_CHARACTERS = 10
"""The cost of a value in addition to its text."""
HOLE_CHARACTERS = 50
"""The cost of a `{{ ... }}` in addition to its result: the time of reading an expression."""


class TooMuchError(Exception):
    """More than a playbook may expand to; the text says of what."""


@dataclass(slots=True)
class Effort:
    """The effort of reading a playbook with all that it includes. Its methods raise TooMuchError."""

    steps: int = 0
    characters: int = 0

    def step(self) -> None:
        """Count one more step, or round of a sweep."""
        self.steps += 1
        if self.steps > WRITTEN_MAX:
            raise TooMuchError(
                f"over {WRITTEN_MAX} steps with all sweeps and includes expanded; "
                "sweep less, or put equal steps into a repeat"
            )

    def values(self, count: int) -> None:
        """Count so many more values, whatever their text."""
        self._spend(count * VALUE_CHARACTERS)

    def holes(self, text: str) -> None:
        """Count a text before its expressions are replaced."""
        self._spend(len(text) + HOLE_CHARACTERS * text.count("{{"))

    def filled(self, text: str) -> None:
        """Count the text after that."""
        self._spend(len(text))

    def _spend(self, characters: int) -> None:
        self.characters += characters
        if self.characters > CHARACTERS_MAX:
            raise TooMuchError(
                f"over {CHARACTERS_MAX} characters with all sweeps and includes expanded "
                f"(a value counts as {VALUE_CHARACTERS}, a {{{{ }}}} as "
                f"{HOLE_CHARACTERS}); sweep less, or write less into each step"
            )
