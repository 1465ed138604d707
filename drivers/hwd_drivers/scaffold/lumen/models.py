"""The models of Lumen switches, and the declaration of their driver."""

from typing import Final

from hwd_drivers.core.values import Capabilities
from hwd_drivers.devices.elements import matrix_ends
from hwd_drivers.devices.matrix_switch import LineOptions, matrix_size
from hwd_drivers.devices.registry import DriverSpec, Evidence

from .driver import LumenSwitch


def matrix(size: str | None) -> Capabilities:
    """Inputs on side A, outputs on side B; any input to any output. Replace the figures by those of your data sheet."""
    inputs, outputs = matrix_size(size or "8x8", example="8x8", side_most=64)
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
    options=LineOptions,
    models={"lumen-matrix": matrix},
    twin=f"{__package__}.twin:TWIN",
    default_port=5000,
    sizes={"lumen-matrix": "8x8"},
    evidence=Evidence.THIN,
)
