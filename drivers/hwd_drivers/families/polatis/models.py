"""The models of Polatis switches, and the declarations of their drivers."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import Capabilities, PortSide, Side
from hwd_drivers.devices.registry import DriverSpec, check_login
from hwd_drivers.families.polatis.restconf.driver import PolatisRestconfSwitch, RestconfOptions
from hwd_drivers.families.polatis.restconf.protocol import DEFAULT_PORT as RESTCONF_PORT
from hwd_drivers.families.polatis.scpi.driver import PolatisScpiOptions, PolatisScpiSwitch
from hwd_drivers.families.polatis.scpi.protocol import DEFAULT_PORT as SCPI_PORT
from hwd_drivers.families.polatis.tl1.driver import PolatisOptions, PolatisSwitch
from hwd_drivers.families.polatis.tl1.protocol import DEFAULT_PORT

SERIES_6000_PORTS: Final = 384
"""Inputs and outputs together of the largest unit of the series."""
SERIES_7000_PORTS: Final = 1152
"""Inputs and outputs together of the large units: 320x320 and 512x512 were seen, 576x576 is the largest that is sold.
"""

_MATRIX = re.compile(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})")
_SINGLE_SIDED = re.compile(r"[1-9][0-9]{0,4}")


def series_6000(size: str | None) -> Capabilities:
    """A `32x32` has inputs on side A and outputs on side B; a `32` joins any port with any other. Monitors at outputs.

    Loss, settling and the strongest light as users quote the data table of a 320x320 unit. Light passes both ways; a
    unit without power is dark. Published clients rely on it that a list is done whole or not at all, and that ports in
    use are moved; no manual that we have says it.
    """
    return _matrix(size, ports_most=SERIES_6000_PORTS)


def series_7000(size: str | None) -> Capabilities:
    """A unit as the 6000, larger: 320x320 and more."""
    return _matrix(size, ports_most=SERIES_7000_PORTS)


def with_attenuators(size: str | None) -> Capabilities:
    """A unit of the VST kind: as the others, with a variable attenuator at each output."""
    capabilities = series_6000(size)
    return replace(capabilities, attenuated=capabilities.monitored)


def instrument(size: str | None) -> Capabilities:
    """A unit of instrument size (I-OST): no monitors."""
    return replace(series_6000(size), monitored=())


def _matrix(size: str | None, *, ports_most: int) -> Capabilities:
    near, far = _ends(size, ports_most)
    return Capabilities(
        ends=near + far,
        two_sided=bool(far),
        reciprocal=True,
        latching=False,
        atomic_batches=True,
        moves_in_use=True,
        settle_s=0.05,
        loss_db_typical=1.5,
        loss_db_max=2.7,
        input_max_dbm=20.0,
        monitored=far or near,
        blockable=near + far,
        reports_before=True,
    )


def _ends(size: str | None, ports_most: int) -> tuple[tuple[PortSide, ...], tuple[PortSide, ...]]:
    """Inputs, or all ports of a single-sided unit, and outputs. Raises ConfigError for a size that there is not."""
    if size is None:
        raise ConfigError("size: a Polatis switch comes in many. Give it, such as 32x32")
    if matrix := _MATRIX.fullmatch(size):
        inputs, outputs = int(matrix[1]), int(matrix[2])
    elif _SINGLE_SIDED.fullmatch(size):
        inputs, outputs = int(size), 0
    else:
        raise ConfigError(f"size {size!r}: not a size. Write inputs x outputs, such as 32x32")
    if inputs + outputs > ports_most:
        raise ConfigError(f"size {size}: {inputs + outputs} ports are over the {ports_most} ports of this model")
    near = tuple(PortSide(port=str(port), side=Side.A if outputs else Side.NONE) for port in range(1, inputs + 1))
    return near, tuple(PortSide(port=str(port), side=Side.B) for port in range(1, outputs + 1))


def _without_attenuators(model: Callable[[str | None], Capabilities]) -> Callable[[str | None], Capabilities]:
    """The model behind a protocol whose commands for attenuators are not known."""
    return lambda size: replace(model(size), attenuated=())


MODELS: Final[Mapping[str, Callable[[str | None], Capabilities]]] = {
    "polatis-6000": series_6000,
    "polatis-7000": series_7000,
    "polatis-vst": with_attenuators,
    "polatis-instrument": instrument,
}
SIZES: Final = {"polatis-6000": "8x8", "polatis-7000": "12x12", "polatis-vst": "8x8", "polatis-instrument": "16"}

tl1_driver: Final = DriverSpec(
    name="polatis-tl1",
    open=PolatisSwitch.open,
    check=check_login,
    options=PolatisOptions,
    models=MODELS,
    twin="hwd_drivers.families.polatis.twin:TL1_TWIN",
    default_port=DEFAULT_PORT,
    sizes=SIZES,
    usual=True,
)

scpi_driver: Final = DriverSpec(
    name="polatis-scpi",
    open=PolatisScpiSwitch.open,
    options=PolatisScpiOptions,
    models={name: _without_attenuators(model) for name, model in MODELS.items()},
    twin="hwd_drivers.families.polatis.twin:SCPI_TWIN",
    default_port=SCPI_PORT,
    sizes=SIZES,
)

restconf_driver: Final = replace(
    tl1_driver,
    name="polatis-restconf",
    open=PolatisRestconfSwitch.open,
    options=RestconfOptions,
    twin="hwd_drivers.families.polatis.twin:RESTCONF_TWIN",
    default_port=RESTCONF_PORT,
    usual=False,
)
