"""What Lumen switches there are, and the declaration of their driver."""

import re
from typing import Final

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import Capabilities
from hwd_drivers.devices.elements import matrix_ends
from hwd_drivers.devices.registry import DriverSpec, Evidence

from .driver import LumenOptions, LumenSwitch
from .protocol import DEFAULT_PORT

PORTS_MAX: Final = 64
"""Inputs, or outputs, of the largest unit."""

_SIZE = re.compile(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})")


def matrix(size: str | None) -> Capabilities:
    """Inputs on side A, outputs on side B; any input to any output. Replace the figures by those of your data sheet."""
    found = _SIZE.fullmatch(size or "8x8")
    if found is None:
        raise ConfigError(f"size {size!r}: not a size. Write inputs x outputs, such as 8x8")
    inputs, outputs = int(found[1]), int(found[2])
    if max(inputs, outputs) > PORTS_MAX:
        raise ConfigError(f"size {size}: over the {PORTS_MAX} inputs or outputs of this model")
    return Capabilities(
        ends=matrix_ends(inputs, outputs),
        two_sided=True,
        reciprocal=True,
        latching=False,
        atomic_batches=True,
        moves_in_use=False,
        settle_s=0.02,
        loss_db_typical=1.0,
        loss_db_max=2.0,
        reports_before=True,
    )


driver: Final = DriverSpec(
    name="lumen",
    open=LumenSwitch.open,
    options=LumenOptions,
    models={"lumen-matrix": matrix},
    twin=f"{__package__}.twin:TWIN",
    default_port=DEFAULT_PORT,
    sizes={"lumen-matrix": "8x8"},
    evidence=Evidence.THIN,
)
