"""CalientTwin: a simulated unit with one or both of its protocols on the same state."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Capabilities
from hwd_drivers.families.calient.front import Front, MakeFront
from hwd_drivers.families.calient.options import TwinOptions
from hwd_drivers.families.calient.rest.front import RestFront
from hwd_drivers.families.calient.tl1.front import Tl1Front
from hwd_drivers.families.calient.unit import Unit
from hwd_drivers.transports.dial import Dialer
from hwd_drivers.twins.registry import TwinSpec, options_of
from hwd_drivers.twins.timing import SwitchTiming

FRONTS: Final[Mapping[str, MakeFront]] = {"tl1": Tl1Front, "rest": RestFront}
"""The servers of a unit by the protocol's name, which is also the option with its address."""


class CalientTwin:
    """The twin of one unit. `protocol` answers at `address`, the other at the address in the options."""

    def __init__(
        self,
        protocol: str,
        *,
        name: str,
        capabilities: Capabilities,
        timing: SwitchTiming,
        draws: Draws,
        clock: Clock,
        dialer: Dialer,
        address: str,
        options: Mapping[str, Json],
    ) -> None:
        self.options = options_of(TwinOptions, name, options)
        places = {"tl1": self.options.tl1, "rest": self.options.rest}
        if (twice := places.pop(protocol)) is not None:
            raise ConfigError(f"twin {name}: {protocol}: {twice}: it answers that at {address} already. Leave it out")
        self.unit = Unit(
            name=name, capabilities=capabilities, timing=timing, draws=draws, clock=clock, options=self.options
        )
        self.mirror = self.unit.mirror
        self.faults = self.unit.faults
        self.fronts: dict[str, Front] = {
            each: FRONTS[each](self.unit, dialer=dialer, clock=clock, address=place)
            for each, place in ({protocol: address} | places).items()
            if place is not None
        }
        self._protocol = protocol
        self._addresses: dict[str, str] = {}

    @property
    def addresses(self) -> Mapping[str, str]:
        return self._addresses

    async def start(self) -> str:
        """Open all protocols, or none; returns the address of `protocol`."""
        try:
            for protocol, front in self.fronts.items():
                self._addresses[protocol] = await front.start()
        except BaseException:
            await self.close()
            raise
        return self._addresses[self._protocol]

    async def close(self) -> None:
        for front in self.fronts.values():
            await front.close()
        self._addresses.clear()


TL1_TWIN: Final = TwinSpec(make=partial(CalientTwin, "tl1"), options=TwinOptions)


REST_TWIN: Final = TwinSpec(make=partial(CalientTwin, "rest"), options=TwinOptions)
