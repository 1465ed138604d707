"""ClockStep: a host's clock was set, or stopped, between two exchanges with it."""

import msgspec

from hwd.model.host import ClockStepped
from hwd_drivers.core.structs import from_plain, to_plain

_NS_IN_S, _NS_IN_MS = 1e9, 1e6


class ClockStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a host's clock: by how much (forwards above 0), right within `error_ns`, and between which two times of
    the daemon's clock.

    Events of that host in between are converted by its clock before the step, until the step is found.
    """

    by_ns: int
    error_ns: int
    earliest_ns: int
    latest_ns: int

    @classmethod
    def of(cls, fact: ClockStepped) -> "ClockStep":
        """Read the step as it was emitted."""
        return from_plain(fact, cls, from_attributes=True)

    def fact(self, host: str, boot: str) -> ClockStepped:
        """The document of it."""
        return ClockStepped(host=host, boot=boot, **to_plain(self))

    def text(self, host: str, *, zero_ns: int) -> str:
        """The step in words; times count from `zero_ns`."""
        since_ms, until_ms = (self.earliest_ns - zero_ns) / _NS_IN_MS, (self.latest_ns - zero_ns) / _NS_IN_MS
        return f"{host}: {self}, between {since_ms:.3f} and {until_ms:.3f} ms: instants of its ports may be off by that"

    def __str__(self) -> str:
        return f"its clock was stepped by {self.by_ns / _NS_IN_S:+.6f} s +- {self.error_ns / 1e3:.0f} us"
