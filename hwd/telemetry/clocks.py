"""Clocks of hosts: offset and drift against ours, and the state of their wall clocks, in series."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from hwd.telemetry.reading import mapping, number, text
from hwd.telemetry.series import Series

_NS_IN_S: Final = 1e9


class Clocks:
    """Takes `clock.aligned`, `clock.stepped` and `host.birth`."""

    def __init__(self, *, hosts: int) -> None:
        one = "host"
        self._by_key = {
            "offset_ns": (
                Series("hwd_clock_offset_seconds", "Clock of a host minus ours", one, limit=hosts),
                1 / _NS_IN_S,
            ),
            "error_ns": (
                Series("hwd_clock_error_seconds", "Bound of the error of that offset", one, limit=hosts),
                1 / _NS_IN_S,
            ),
            "drift_ppm": (
                Series("hwd_clock_drift_ratio", "How much faster the clock of a host runs than ours", one, limit=hosts),
                1e-6,
            ),
        }
        self._udp = Series(
            "hwd_clock_udp", "1 while the clock of a host is asked by UDP, 0 over the broker", one, limit=hosts
        )
        self._steps = Series(
            "hwd_clock_steps_total",
            "How often the clock of a host was found to have been stepped",
            one,
            limit=hosts,
            counter=True,
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
        yield from (series for series, _ in self._by_key.values())
        yield from (self._udp, self._steps, self._wall, self._wall_error)

    def aligned(self, host: str, data: Mapping[str, Any]) -> None:
        for key, (series, scale) in self._by_key.items():
            if (value := number(data, key)) is not None:
                series.set(value * scale, host)
        if text(data, "via"):
            self._udp.set(float(text(data, "via") == "udp"), host)

    def stepped(self, host: str) -> None:
        self._steps.add(1, host)

    def born(self, host: str, data: Mapping[str, Any]) -> None:
        self._steps.add(0, host)
        self._wall.drop(host)
        self._wall_error.drop(host)
        wall = mapping(data, "wall_clock")
        if not wall:
            return
        self._wall.set(float(bool(text(wall, "synchronised_by"))), host)
        if (error_s := number(wall, "error_s")) is not None:
            self._wall_error.set(error_s, host)

    def away(self, host: str) -> None:
        """Its agent is disconnected: nothing is known of its clocks any more."""
        for series in self:
            if series is not self._steps:
                series.drop(host)
