"""UnitTwin: the twin of a unit with one or more protocols on the same state, and Front, the server of one of them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from pydantic import BaseModel

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Capabilities
from hwd_drivers.transports.dial import Acceptor, Dialer
from hwd_drivers.twins.faults import Faults
from hwd_drivers.twins.mirror import Mirror
from hwd_drivers.twins.registry import options_of
from hwd_drivers.twins.server import TwinServer, TwinSession
from hwd_drivers.twins.timing import SwitchTiming


class SimulatedUnit(Protocol):
    """A unit without its protocols: `mirror` is its optics, `faults` its faults."""

    mirror: Mirror
    faults: Faults

    def close(self) -> None:
        """Stop everything that happens by itself."""


UnitT = TypeVar("UnitT", bound=SimulatedUnit)
OptionsT = TypeVar("OptionsT", bound=BaseModel)


class Front(ABC, Generic[UnitT]):
    """The server of one protocol of a unit; all fronts of a unit act on the same state.

    `sessions_max`: most sessions at a time; None is no limit.
    """

    def __init__(
        self, unit: UnitT, *, dialer: Acceptor, clock: Clock, address: str, sessions_max: int | None = None
    ) -> None:
        self.unit = unit
        self.clock = clock
        self.dialer = dialer
        self._address = address
        self._sessions_max = sessions_max
        self._server: TwinServer | None = None

    @abstractmethod
    def make_session(self, server: TwinServer) -> TwinSession:
        """The session of a new client."""

    def acceptor(self) -> Acceptor:
        """What listens at the address. A subclass that needs a foreign package (SSH) imports it here."""
        return self.dialer

    @property
    def sessions(self) -> list[TwinSession]:
        """The present sessions."""
        return [] if self._server is None else self._server.sessions

    async def start(self) -> str:
        """Listen; returns the address."""
        if self._server is None:
            self._server = TwinServer(
                mirror=self.unit.mirror,
                clock=self.clock,
                dialer=self.acceptor(),
                address=self._address,
                make_session=self.make_session,
                faults=self.unit.faults,
                sessions_max=self._sessions_max,
            )
        return await self._server.start()

    async def close(self) -> None:
        """Stop and end all sessions; safe to call any number of times."""
        if self._server is not None:
            await self._server.close()


class UnitTwin(Generic[UnitT, OptionsT]):
    """The twin of one unit. `protocol` answers at `address`, the others at the addresses in the options.

    twin = PolatisTwin("tl1", name="ocs1", ..., address="127.0.0.1:0", options={"scpi": "127.0.0.1:0"})
    await twin.start()
    twin.addresses  # {"tl1": "127.0.0.1:40213", "scpi": "127.0.0.1:40215"}

    `front_types`: the servers of a unit by the protocol's name, which is also the option with its address where there
    are several.
    """

    unit_type: ClassVar[Any]
    options_type: type[OptionsT]
    front_types: ClassVar[Mapping[str, type[Front[Any]]]]
    unit: UnitT

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
        self.options = options_of(self.options_type, name, options)
        places = {each: getattr(self.options, each, None) for each in self.front_types}
        if (twice := places.pop(protocol)) is not None:
            raise ConfigError(f"twin {name}: {protocol}: {twice}: it answers that at {address} already. Leave it out")
        self.unit = self.unit_type(
            name=name, capabilities=capabilities, timing=timing, draws=draws, clock=clock, options=self.options
        )
        self.mirror = self.unit.mirror
        self.faults = self.unit.faults
        self.fronts: dict[str, Front[Any]] = {
            each: self.front_types[each](self.unit, dialer=dialer, clock=clock, address=place)
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
        self.unit.close()
        self._addresses.clear()
