"""PolatisTwin: a simulated unit with one or more of its protocols on the same state."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Capabilities
from hwd_drivers.families.polatis.front import Front, MakeFront
from hwd_drivers.families.polatis.netconf.front import NetconfFront
from hwd_drivers.families.polatis.options import TwinOptions
from hwd_drivers.families.polatis.restconf.front import RestconfFront
from hwd_drivers.families.polatis.scpi.front import ScpiFront
from hwd_drivers.families.polatis.tl1.front import Tl1Front
from hwd_drivers.families.polatis.unit import Unit
from hwd_drivers.transports.dial import Dialer
from hwd_drivers.twins.faults import Denial
from hwd_drivers.twins.registry import TwinSpec, options_of
from hwd_drivers.twins.timing import SwitchTiming

ALONE: Final = {"logins": "usual"}
FRONTS: Final[Mapping[str, MakeFront]] = {
    "tl1": Tl1Front,
    "scpi": ScpiFront,
    "netconf": NetconfFront,
    "restconf": RestconfFront,
}
"""The servers of a unit by the protocol's name, which is also the option with its address."""


class PolatisTwin:
    """The twin of one unit. `protocol` answers at `address`, the others at the addresses in the options.

    twin = PolatisTwin("tl1", name="ocs1", ..., address="127.0.0.1:0", options={"scpi": "127.0.0.1:0"})
    await twin.start()
    twin.addresses  # {"tl1": "127.0.0.1:40213", "scpi": "127.0.0.1:40215"}
    """

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
        self.unit = Unit(
            name=name, capabilities=capabilities, timing=timing, draws=draws, clock=clock, options=self.options
        )
        self.mirror = self.unit.mirror
        self.faults = self.unit.faults
        self.fronts: dict[str, Front] = {}
        self._protocol = protocol
        self._addresses: dict[str, str] = {}
        for each, place in self._places(address).items():
            if each not in FRONTS:
                raise ConfigError(f"twin {name}: {each}: not spoken by this twin. Leave it out")
            self.fronts[each] = FRONTS[each](self.unit, dialer=dialer, clock=clock, address=place)

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
        self.unit.close()
        self._addresses.clear()

    def _places(self, address: str) -> dict[str, str]:
        """The address of each protocol; that of `protocol` first."""
        places = {
            "tl1": self.options.tl1,
            "scpi": self.options.scpi,
            "netconf": self.options.netconf,
            "restconf": self.options.restconf,
        }
        if (twice := places.pop(self._protocol)) is not None:
            raise ConfigError(
                f"twin {self.unit.name}: {self._protocol}: {twice}: it answers that at {address} already. Leave it out"
            )
        return {self._protocol: address} | {each: place for each, place in places.items() if place is not None}


TL1_TWIN: Final = TwinSpec(make=partial(PolatisTwin, "tl1"), options=TwinOptions, alone=ALONE)


SCPI_TWIN: Final = TwinSpec(
    make=partial(PolatisTwin, "scpi"),
    options=TwinOptions,
    alone=ALONE,
    denial=Denial(code="-200", text="told to say no"),
)


RESTCONF_TWIN: Final = TwinSpec(
    make=partial(PolatisTwin, "restconf"),
    options=TwinOptions,
    alone=ALONE,
    denial=Denial(code="operation-failed", text="told to say no"),
)


NETCONF_TWIN: Final = TwinSpec(
    make=partial(PolatisTwin, "netconf"),
    options=TwinOptions,
    alone=ALONE,
    denial=Denial(code="resource-denied", text="told to say no"),
)
