"""The DiCon MXS-9100, and the declaration of its driver."""

import re
from typing import Final

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import Capabilities
from hwd_drivers.devices.elements import matrix_ends
from hwd_drivers.devices.registry import DriverSpec, Evidence
from hwd_drivers.families.dicon.mxs.driver import MxsOptions, MxsSwitch
from hwd_drivers.families.dicon.mxs.protocol import DEFAULT_PORT

PORTS: Final = 256
"""Inputs and outputs together: what the largest unit has is not in the pages that we have."""

_MATRIX = re.compile(r"([1-9][0-9]{0,3})x([1-9][0-9]{0,3})")


def mxs_9100(size: str | None) -> Capabilities:
    """A matrix `8x8`: inputs on side A, outputs on side B. Losses and time: of MEMS matrices in general."""
    matrix = _MATRIX.fullmatch(size or "")
    if matrix is None:
        raise ConfigError(f"size {size!r}: an mxs-9100 comes in many. Write inputs x outputs, such as 8x8")
    inputs, outputs = int(matrix[1]), int(matrix[2])
    if inputs + outputs > PORTS:
        raise ConfigError(f"size {size}: {inputs + outputs} ports are over the {PORTS} ports of this model")
    return Capabilities(
        ends=matrix_ends(inputs, outputs),
        two_sided=True,
        reciprocal=True,
        latching=False,
        atomic_batches=False,
        moves_in_use=True,
        settle_s=0.05,
        loss_db_typical=2.0,
        loss_db_max=4.0,
        reports_before=True,
    )


driver: Final = DriverSpec(
    name="dicon-mxs",
    open=MxsSwitch.open,
    options=MxsOptions,
    models={"mxs-9100": mxs_9100},
    twin="hwd_drivers.families.dicon.mxs.twin:TWIN",
    default_port=DEFAULT_PORT,
    sizes={"mxs-9100": "8x8"},
    evidence=Evidence.VENDOR,
)
