"""Clocks of hosts: offset and drift against ours, and the state of their wall clocks, in series."""

from collections.abc import Iterator
from typing import Final

from msgspec import UNSET

from hwd.model.host import ClockAligned, HostBirth
from hwd.telemetry.series import Series

_NS_IN_S: Final = 1e9


class Clocks:
    """Takes `clock.aligned`, `clock.stepped` and `host.birth`."""

    def __init__(self, *, hosts: int) -> None:
        one = "host"
        self._offset = Series("hwd_clock_offset_seconds", "Clock of a host minus ours", one, limit=hosts)
        self._error = Series("hwd_clock_error_seconds", "Bound of the error of that offset", one, limit=hosts)
        self._drift = Series(
            "hwd_clock_drift_ratio", "How much faster the clock of a host runs than ours", one, limit=hosts
        )
        self._udp = Series(
            "hwd_clock_udp", "1 while the clock of a host is asked by UDP, 0 over the broker", one, limit=hosts
        )
        self._steps = Series(
            "hwd_clock_steps_total", "How often the clock of a host was found to have been stepped", one, limit=hosts
        )
        self._wall = Series(
            "hwd_wall_clock_synchronised",
            "1 while something keeps the wall clock of a host, 0 where nothing does",
            one,
            limit=hosts,
        )
        self._wall_error = Series(
            "hwd_wall_clock_error_seconds",
            "Bound of the error of the wall clock of a host, as last told",
            one,
            limit=hosts,
        )

    def __iter__(self) -> Iterator[Series]:
        yield from (self._offset, self._error, self._drift)
        yield from (self._udp, self._steps, self._wall, self._wall_error)

    def aligned(self, fact: ClockAligned) -> None:
        self._offset.set(fact.offset_ns / _NS_IN_S, fact.host)
        self._error.set(fact.error_ns / _NS_IN_S, fact.host)
        self._drift.set(fact.drift_ppm * 1e-6, fact.host)
        if fact.via is not UNSET:
            self._udp.set(float(fact.via == "udp"), fact.host)

    def stepped(self, host: str) -> None:
        self._steps.add(1, host)

    def born(self, fact: HostBirth) -> None:
        host, wall = fact.host, fact.wall_clock
        self._steps.add(0, host)
        self._wall.drop(host)
        self._wall_error.drop(host)
        if wall is UNSET or wall is None:
            return
        self._wall.set(float(bool(wall.synchronised_by)), host)
        if (error_s := wall.error_s) is not None:
            self._wall_error.set(error_s, host)

    def away(self, host: str) -> None:
        """Its agent is disconnected: nothing is known of its clocks any more."""
        for series in self:
            if series is not self._steps:
                series.drop(host)
