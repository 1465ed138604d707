"""TwinSpec: how a package declares the twins of a driver, and how they are found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.reason import finding_of
from hwd_drivers.core.values import Capabilities
from hwd_drivers.devices.registry import DriverSpec, NoOptions
from hwd_drivers.devices.serial_part import SerialPart
from hwd_drivers.transports.dial import Dialer
from hwd_drivers.twins.faults import Denial, Faults
from hwd_drivers.twins.mirror import Mirror
from hwd_drivers.twins.timing import SwitchTiming

OptionsT = TypeVar("OptionsT", bound=BaseModel)

USUAL_DENIAL: Final = Denial(code="SROF", text="told to say no")
"""TL1's refusal of an operation that failed."""


class Twin(Protocol):
    """A simulated device behind a socket."""

    mirror: Mirror
    faults: Faults

    @property
    def addresses(self) -> Mapping[str, str]:
        """Its addresses by protocol, such as {"tl1": "127.0.0.1:3082"}, after the start."""
        ...

    async def start(self) -> str:
        """Listen; returns the address."""
        ...

    async def close(self) -> None:
        """Stop and end all sessions; safe to call any number of times."""
        ...


class TwinMaker(Protocol):
    """Makes a twin that is not started yet. Raises ConfigError on options that it does not know."""

    def __call__(
        self,
        *,
        name: str,
        capabilities: Capabilities,
        timing: SwitchTiming,
        draws: Draws,
        clock: Clock,
        dialer: Dialer,
        address: str,
        options: Mapping[str, Json],
    ) -> Twin: ...


def options_of(kind: type[OptionsT], name: str, options: Mapping[str, Json]) -> OptionsT:
    """The options of a twin from the testbed. Raises ConfigError with every mistake."""
    try:
        return kind.model_validate(dict(options))
    except ValidationError as error:
        faults = "; ".join(finding_of(each) for each in error.errors())
        raise ConfigError(f"twin {name}: {faults}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinSpec:
    """The twins of a driver, as its package declares them under the name in `DriverSpec.twin`.

    `make`: makes one. `options`: schema of its options in a testbed file. `alone`: default options of a twin outside of
    a rack. `denial`: a refusal in the device's own words, for the checks; None where its protocol has none.
    """

    make: TwinMaker
    options: type[BaseModel] = NoOptions
    alone: Mapping[str, Json] = field(default_factory=dict)
    denial: Denial | None = USUAL_DENIAL


def twin_of(spec: DriverSpec) -> TwinSpec:
    """The declaration of a driver's twins. Raises ConfigError where it cannot be loaded or is none."""
    found = spec.declared_twin()
    if isinstance(found, SerialPart):
        from hwd_drivers.twins.part_twin import PartTwin  # which takes `options_of` from here

        denial = None if found.denial is None else Denial(code=found.denial[0], text=found.denial[1])
        return TwinSpec(make=partial(PartTwin, found), options=found.options, denial=denial)
    if not isinstance(found, TwinSpec):
        raise ConfigError(f"driver {spec.name!r}: its twin {spec.twin} is not a TwinSpec but {type(found).__name__}")
    return found
