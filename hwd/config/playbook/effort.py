"""How much the reading of one playbook may cost. All that sweeps and includes write out is counted, whether it can be used or not."""

from dataclasses import dataclass

WRITTEN_MAX = 10_000
"""Steps and rounds that sweeps and includes write out; repeats are not written out."""
CHARACTERS_MAX = 10_000_000
"""Of what sweeps and includes write out: what keeps the reading of any playbook to some seconds and some tens of megabytes."""
VALUE_CHARACTERS = 10
"""What a value counts for besides its filled text."""
HOLE_CHARACTERS = 50
"""What a `{{ ... }}` counts for besides its result: reading an expression takes so long."""


class TooMuchError(Exception):
    """More than a playbook may write out; the text says of what."""


@dataclass(slots=True)
class Effort:
    """One for the reading of a playbook with all that it includes. Its methods raise TooMuchError."""

    steps: int = 0
    characters: int = 0

    def step(self) -> None:
        """One more step, or round of a sweep."""
        self.steps += 1
        if self.steps > WRITTEN_MAX:
            raise TooMuchError(
                f"over {WRITTEN_MAX} steps with all sweeps and includes written out; sweep less, or put what is the same into a repeat"
            )

    def values(self, count: int) -> None:
        """So many more values, whatever their text."""
        self._spend(count * VALUE_CHARACTERS)

    def holes(self, text: str) -> None:
        """A text that is about to be filled."""
        self._spend(len(text) + HOLE_CHARACTERS * text.count("{{"))

    def filled(self, text: str) -> None:
        """What became of it."""
        self._spend(len(text))

    def _spend(self, characters: int) -> None:
        self.characters += characters
        if self.characters > CHARACTERS_MAX:
            raise TooMuchError(
                f"over {CHARACTERS_MAX} characters with all sweeps and includes written out (a value counts as {VALUE_CHARACTERS}, a {{{{ }}}} as "
                f"{HOLE_CHARACTERS}); sweep less, or write less into each step"
            )
