"""ClockStep: a host's clock was set, or stopped, between two exchanges with it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hwd_drivers.core.documents import Json

_NS_IN_S, _NS_IN_MS = 1e9, 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStep:
    """By how much (forwards above 0), right within `error_ns`, and between which two times of the daemon's clock.

    Events of that host in between are converted by its clock before the step, until the step is found.
    """

    by_ns: int
    error_ns: int
    earliest_ns: int
    latest_ns: int

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "ClockStep":
        """Read the data of a `clock.stepped` document. Raises KeyError where a field is missing."""
        return cls(**{name: int(data[name]) for name in ("by_ns", "error_ns", "earliest_ns", "latest_ns")})

    def to_data(self) -> dict[str, Json]:
        """The fields of a `clock.stepped` document, apart from host and boot."""
        return {
            "by_ns": self.by_ns,
            "error_ns": self.error_ns,
            "earliest_ns": self.earliest_ns,
            "latest_ns": self.latest_ns,
        }

    def text(self, host: str, *, zero_ns: int) -> str:
        """The step in words; times count from `zero_ns`."""
        since_ms, until_ms = (self.earliest_ns - zero_ns) / _NS_IN_MS, (self.latest_ns - zero_ns) / _NS_IN_MS
        return f"{host}: {self}, between {since_ms:.3f} and {until_ms:.3f} ms: instants of its ports may be off by that"

    def __str__(self) -> str:
        return f"its clock was stepped by {self.by_ns / _NS_IN_S:+.6f} s +- {self.error_ns / 1e3:.0f} us"
