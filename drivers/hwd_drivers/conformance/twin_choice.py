"""TwinUnderTest: the settings of one twin for the checks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from pydantic import BaseModel

from hwd_drivers.core.documents import Json
from hwd_drivers.core.values import Capabilities
from hwd_drivers.devices.registry import DriverSpec
from hwd_drivers.twins.timing import SwitchTiming, find_timing

SEED: Final = 7
LOGIN: Final = "bench"
"""Default user and password; a twin without configured ones accepts any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinUnderTest:
    """A driver and the twin that it is checked on. `options` are the driver's, `twin_options` those of the twin."""

    spec: DriverSpec
    model: str
    capabilities: Capabilities
    options: BaseModel
    timing: SwitchTiming = field(default_factory=lambda: find_timing("polatis-opus"))
    seed: int = SEED
    twin_options: Mapping[str, Json] = field(default_factory=dict)
    user: str = LOGIN
    password: str = field(default=LOGIN, repr=False)

    @classmethod
    def of(cls, spec: DriverSpec, model: str) -> Self:
        """A model at the size that its driver is checked with, and defaults for the rest."""
        return cls(
            spec=spec, model=model, capabilities=spec.capabilities(model, spec.sizes.get(model)), options=spec.options()
        )
