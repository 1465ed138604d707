"""Bucket: a token bucket, which limits packets or bytes per second."""

import asyncio
from typing import Final

LEAST_WAIT_S: Final = 0.0001
"""Rounding may leave this much less than a token; no timer waits for so little."""


class Bucket:
    """Filled at `per_s` tokens a second up to `most`; full at first."""

    def __init__(self, *, per_s: float, most: float) -> None:
        self._per_s = per_s
        self._most = most
        self._tokens = most
        self._filled_s: float | None = None

    def take(self, tokens: float = 1) -> bool:
        """Take so many; False: there are fewer, and none is taken."""
        now_s = asyncio.get_running_loop().time()
        if self._filled_s is not None:
            self._tokens = min(self._most, self._tokens + (now_s - self._filled_s) * self._per_s)
        self._filled_s = now_s
        if self._tokens < tokens:
            return False
        self._tokens -= tokens
        return True

    def wait_s(self, tokens: float = 1) -> float:
        """The time until there are so many tokens, at most `most`."""
        self.take(0)  # fills it
        return max(LEAST_WAIT_S, (tokens - self._tokens) / self._per_s)
