"""What Polatis switches there are, and the declarations of their drivers."""

import re
from functools import partial
from typing import Final

from hwd_drivers.kit.errors import ConfigError
from hwd_drivers.kit.registry import DriverSpec
from hwd_drivers.kit.values import Capabilities, PortSide, Side
from hwd_drivers.polatis.options import TwinOptions
from hwd_drivers.polatis.tl1.driver import PolatisOptions, PolatisSwitch
from hwd_drivers.polatis.tl1.protocol import DEFAULT_PORT
from hwd_drivers.polatis.twin import PolatisTwin

SERIES_6000_PORTS: Final = 384
"""Inputs and outputs together of the largest unit of the series."""

_MATRIX = re.compile(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})")
_SINGLE_SIDED = re.compile(r"[1-9][0-9]{0,4}")


def series_6000(size: str | None) -> Capabilities:
    """A `32x32` has inputs on side A and outputs on side B; a plain `32` joins any port with any other.

    Loss and settling as users quote the data table of a 320x320 unit. Light passes both ways; a unit without power is dark. That a list is done
    whole or not at all, and that ENT-PATCH moves ports in use, is what published clients rely on; no manual that we have says it.
    """
    if size is None:
        raise ConfigError("size: a polatis-6000 comes in many. Give it, such as 32x32")
    if matrix := _MATRIX.fullmatch(size):
        inputs, outputs = int(matrix[1]), int(matrix[2])
    elif _SINGLE_SIDED.fullmatch(size):
        inputs, outputs = int(size), 0
    else:
        raise ConfigError(f"size {size!r}: not a size. Write inputs x outputs, such as 32x32")
    if inputs + outputs > SERIES_6000_PORTS:
        raise ConfigError(f"size {size}: {inputs + outputs} ports are over the {SERIES_6000_PORTS} ports of this model")
    near = tuple(PortSide(port=str(port), side=Side.A if outputs else Side.NONE) for port in range(1, inputs + 1))
    far = tuple(PortSide(port=str(port), side=Side.B) for port in range(1, outputs + 1))
    return Capabilities(
        ends=near + far,
        two_sided=bool(outputs),
        reciprocal=True,
        latching=False,
        atomic_batches=True,
        moves_in_use=True,
        settle_s=0.05,
        loss_db_typical=1.5,
        loss_db_max=2.7,
        monitored=far or near,
    )


MODELS: Final = {"polatis-6000": series_6000}
SIZES: Final = {"polatis-6000": "8x8"}

tl1_driver: Final = DriverSpec(
    name="polatis-tl1",
    open=PolatisSwitch.open,
    options=PolatisOptions,
    models=MODELS,
    twin=partial(PolatisTwin, "tl1"),
    default_port=DEFAULT_PORT,
    twin_options=TwinOptions,
    sizes=SIZES,
)
