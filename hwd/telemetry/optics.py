"""Measurements of the modules of NIC ports: optical power, laser bias and temperature, in series."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hwd.telemetry.series import Series
from hwd_agents.wire.events import MonitorData

MA_IN_A: Final = 1e3


class Optics:
    """Takes births and the events `monitors`, `dark` and `light` of agents. A value that is not measured, or not known,
    has no series; a dark lane has no power.

    Light comes and goes hundreds of times between two scrapes: only the last change is made into series, by `settle`.
    """

    def __init__(self, *, ports: int, lanes: int) -> None:
        lane = ("host", "device", "lane")
        self._rx = Series(
            "hwd_nic_rx_power_dbm",
            "Average power that a lane of a NIC port's module receives; absent where dark",
            *lane,
            limit=lanes,
        )
        self._tx = Series("hwd_nic_tx_power_dbm", "Average power that a lane of it sends", *lane, limit=lanes)
        self._bias = Series("hwd_nic_laser_bias_amperes", "Current through the laser of a lane", *lane, limit=lanes)
        self._temperature = Series(
            "hwd_nic_module_temperature_celsius", "Temperature of a NIC port's module", *lane[:2], limit=ports
        )
        self._ports = ports
        self._light: dict[tuple[str, str], Sequence[float | None]] = {}

    def __iter__(self) -> Iterator[Series]:
        yield from (self._rx, self._tx, self._bias, self._temperature)

    def born(self, host: str, monitors: Mapping[str, MonitorData | None]) -> None:
        """Take all that is known now, by the kernel's interface, which is the label `device`."""
        self.away(host)
        for device, measured in monitors.items():
            if measured is not None:
                self.take(host, device, measured)

    def take(self, host: str, device: str, monitors: MonitorData) -> None:
        self._light.pop((host, device), None)
        self._by_lane(self._rx, host, device, monitors.rx_power_dbm)
        self._by_lane(self._tx, host, device, monitors.tx_power_dbm)
        self._by_lane(self._bias, host, device, monitors.bias_ma, unit=MA_IN_A)
        if monitors.temperature_c is None:
            self._temperature.drop(host, device)
        else:
            self._temperature.set(monitors.temperature_c, host, device)

    def light(self, host: str, device: str, lanes: Sequence[float | None]) -> None:
        """Received powers, as light went or came."""
        self._light[host, device] = lanes
        if len(self._light) > self._ports:  # made-up ports: only series have a limit
            self.settle()

    def settle(self) -> None:
        """Bring the series up to date before they are read."""
        for (host, device), lanes in self._light.items():
            self._by_lane(self._rx, host, device, lanes)
        self._light.clear()

    def away(self, host: str) -> None:
        """Its agent is disconnected, or sends all values again."""
        self.settle()
        for series in self:
            series.drop(host)

    def forget_port(self, host: str, device: str) -> None:
        """A port does not exist any more."""
        self._light.pop((host, device), None)
        for series in self:
            series.drop(host, device)

    def _by_lane(
        self, series: Series, host: str, device: str, lanes: Sequence[float | None], *, unit: float = 1.0
    ) -> None:
        measured = {str(lane): value / unit for lane, value in enumerate(lanes, 1) if value is not None}
        series.replace(measured, host, device)
