"""Burst: the real read rate of a module while its port was observed, and the time that a read took."""

from typing import Final

NS_IN_S: Final = 1e9


class Burst:
    """Takes the stamps around each read; returns means in seconds to the microsecond, None before two reads."""

    def __init__(self) -> None:
        self._looks = 0
        self._first_ns = 0
        self._last_ns = 0
        self._reading_ns = 0

    def look(self, before_ns: int, after_ns: int) -> None:
        if not self._looks:
            self._first_ns = after_ns
        self._last_ns = after_ns
        self._looks += 1
        self._reading_ns += after_ns - before_ns

    @property
    def every_s(self) -> float | None:
        """The mean time from one read to the next."""
        return round((self._last_ns - self._first_ns) / (self._looks - 1) / NS_IN_S, 6) if self._looks > 1 else None

    @property
    def read_s(self) -> float | None:
        """What one read took."""
        return round(self._reading_ns / self._looks / NS_IN_S, 6) if self._looks > 1 else None
