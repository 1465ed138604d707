"""A token bucket: so many packets, or bytes, a second and no more, whoever asks."""

import asyncio
from typing import Final

LEAST_WAIT_S: Final = 0.0001
"""Rounding may leave a token short by so little that no timer waits for it."""


class Bucket:
    """Filled at `per_s`, holds `most` tokens, full at first."""

    def __init__(self, *, per_s: float, most: float) -> None:
        self._per_s = per_s
        self._most = most
        self._tokens = most
        self._filled_s: float | None = None

    def take(self, tokens: float = 1) -> bool:
        """Take so many; False, and none is taken: there are fewer."""
        self._fill()
        if self._tokens < tokens:
            return False
        self._tokens -= tokens
        return True

    def wait_s(self, tokens: float = 1) -> float:
        """How long until there are so many, where it holds as many."""
        self._fill()
        return max(LEAST_WAIT_S, (tokens - self._tokens) / self._per_s)

    def _fill(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._filled_s is not None:
            self._tokens = min(self._most, self._tokens + (now_s - self._filled_s) * self._per_s)
        self._filled_s = now_s
