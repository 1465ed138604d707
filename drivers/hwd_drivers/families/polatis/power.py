"""PowerMonitors: power monitors of a Polatis unit, with wavelength, offset and averaging time for each port."""

from collections.abc import Sequence
from typing import Final

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.unit_error import UnitError, Wrong
from hwd_drivers.core.values import Side
from hwd_drivers.families.polatis.numbering import Numbering
from hwd_drivers.families.polatis.options import TwinOptions
from hwd_drivers.families.polatis.settings import MonitorConfig, changed
from hwd_drivers.twins.mirror import Mirror

WAVELENGTHS_NM: Final = (1260.0, 1640.0)
OFFSET_LIMIT_DB: Final = 100.0
"""Ranges of the vendor's YANG model."""
AVERAGING_STEPS_S: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Times of codes 1 to 8 in a published set of scripts; in the YANG model each is twice the last, from about 10 ms."""
REMEMBERS_S: Final = AVERAGING_STEPS_S[-1]


class PowerMonitors:
    """The power monitors of a unit: `ports` have one for forward light, `reverse_ports` one for returning light."""

    def __init__(
        self, *, mirror: Mirror, clock: Clock, numbering: Numbering, ports: frozenset[int], options: TwinOptions
    ) -> None:
        self.ports = ports
        self.reverse_ports = ports if options.reverse_monitors else frozenset[int]()
        self._mirror = mirror
        self._clock = clock
        self._numbering = numbering
        self._doubling = options.averaging == "doubling"
        self._configs: dict[int, MonitorConfig] = {}

    def read(self, ports: Sequence[int]) -> list[tuple[int, float | None]]:
        """Readings of the monitors in dBm with their offsets, averaged; None is dark.

        Raises UnitError for a port without one.
        """
        self.check(ports)
        now_ns = self._clock.monotonic_ns()
        readings: list[tuple[int, float | None]] = []
        for port in ports:
            config = self._configs.get(port, _DEFAULT)
            dbm = self._mirror.power(self._numbering.end(port), now_ns, self._averaging_s(config))
            readings.append((port, None if dbm is None else dbm + config.offset_db))
        return readings

    def read_reverse(self, ports: Sequence[int]) -> list[tuple[int, float | None]]:
        """Light that enters at the monitor of an output, and leaves at that of an input, in dBm."""
        if not self.reverse_ports:
            raise UnitError(Wrong.HARDWARE, "This unit has no monitors of light that comes back")
        self._check(ports, self.reverse_ports)
        now_ns = self._clock.monotonic_ns()
        ends = [(port, self._numbering.end(port)) for port in ports]
        return [
            (port, self._mirror.output(end, now_ns) if end.side is Side.A else self._mirror.input(end))
            for port, end in ends
        ]

    def config(self, port: int) -> MonitorConfig:
        self.check((port,))
        return self._configs.get(port, _DEFAULT)

    def configure(
        self,
        ports: Sequence[int],
        *,
        wavelength_nm: float | None = None,
        offset_db: float | None = None,
        averaging_code: int | None = None,
    ) -> None:
        """Set the values that are not None at all of these ports. Raises UnitError, and then has set nothing."""
        self.check(ports)
        low_nm, high_nm = WAVELENGTHS_NM
        if wavelength_nm is not None and not low_nm <= wavelength_nm <= high_nm:
            raise UnitError(Wrong.VALUE, f"Wavelength {wavelength_nm:g} nm is not between {low_nm:g} and {high_nm:g}")
        if offset_db is not None and not abs(offset_db) <= OFFSET_LIMIT_DB:
            raise UnitError(Wrong.VALUE, f"Offset {offset_db:g} dB is over {OFFSET_LIMIT_DB:g}")
        if averaging_code is not None and not 1 <= averaging_code <= len(AVERAGING_STEPS_S):
            raise UnitError(Wrong.VALUE, f"Averaging time code {averaging_code} is not 1 to {len(AVERAGING_STEPS_S)}")
        values = {"wavelength_nm": wavelength_nm, "offset_db": offset_db, "averaging_code": averaging_code}
        for port in ports:
            self._configs[port] = changed(self._configs.get(port, _DEFAULT), values)

    def check(self, ports: Sequence[int]) -> None:
        """Raises UnitError for a unit without monitors, for an unknown port, and for one without a monitor."""
        if not self.ports:
            raise UnitError(Wrong.HARDWARE, "This unit has no power monitors")
        self._check(ports, self.ports)

    def _check(self, ports: Sequence[int], having: frozenset[int]) -> None:
        for port in ports:
            if port not in having:
                self._numbering.end(port)
                raise UnitError(Wrong.PORT, f"No power monitor at port: {port}")

    def _averaging_s(self, config: MonitorConfig) -> float:
        if self._doubling:
            return float(AVERAGING_STEPS_S[0] * 2 ** (config.averaging_code - 1))
        return AVERAGING_STEPS_S[config.averaging_code - 1]


_DEFAULT: Final = MonitorConfig()
