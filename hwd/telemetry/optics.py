"""Measurements of the modules of NIC ports: optical power, laser bias and temperature, in series."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hwd.telemetry.reading import finite, mapping, number
from hwd.telemetry.series import Series

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
        self._light: dict[tuple[str, str], object] = {}

    def __iter__(self) -> Iterator[Series]:
        yield from (self._rx, self._tx, self._bias, self._temperature)

    def born(self, host: str, interfaces: Mapping[str, str], inventory: Mapping[str, Any]) -> None:
        """All that is known now. `interfaces`: the kernel's interface by port, which is the label `device`."""
        self.away(host)
        monitors = mapping(inventory, "monitors")
        for port, device in interfaces.items():
            self.take(host, device, mapping(monitors, port))

    def take(self, host: str, device: str, monitors: Mapping[str, Any]) -> None:
        """The measurements of one module now."""
        self._light.pop((host, device), None)
        self._by_lane(self._rx, host, device, monitors.get("rx_power_dbm"))
        self._by_lane(self._tx, host, device, monitors.get("tx_power_dbm"))
        self._by_lane(self._bias, host, device, monitors.get("bias_ma"), unit=MA_IN_A)
        if (temperature_c := number(monitors, "temperature_c")) is None:
            self._temperature.drop(host, device)
        else:
            self._temperature.set(temperature_c, host, device)

    def light(self, host: str, device: str, lanes: object) -> None:
        """Received powers, as light went or came."""
        self._light[host, device] = lanes
        if len(self._light) > self._ports:  # made-up ports: only series have a limit
            self.settle()

    def settle(self) -> None:
        """Before the series are read."""
        for (host, device), lanes in self._light.items():
            self._by_lane(self._rx, host, device, lanes)
        self._light.clear()

    def away(self, host: str) -> None:
        """Its agent is disconnected, or sends all values again."""
        self.settle()
        for series in self:
            series.drop(host)

    def gone(self, host: str, device: str) -> None:
        """A port does not exist any more."""
        self._light.pop((host, device), None)
        for series in self:
            series.drop(host, device)

    def _by_lane(self, series: Series, host: str, device: str, values: object, *, unit: float = 1.0) -> None:
        lanes = values if isinstance(values, Sequence) and not isinstance(values, str) else ()
        read = {str(lane): finite(value) for lane, value in enumerate(lanes, 1)}
        series.replace({lane: value / unit for lane, value in read.items() if value is not None}, host, device)
