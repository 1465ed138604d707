"""Progress of the bench, on stderr."""

import sys


class Progress:
    """One line for each step."""

    def say(self, text: str) -> None:
        print(f"bench: {text}", file=sys.stderr, flush=True)
