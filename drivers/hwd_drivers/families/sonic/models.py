"""The models of SONiC optical switches, and the declaration of their driver."""

import re
from typing import Final

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import Capabilities, PortSide, Side
from hwd_drivers.devices.registry import DriverSpec, Evidence, check_login
from hwd_drivers.families.sonic.driver import SonicOptions, SonicSwitch
from hwd_drivers.families.sonic.protocol import DEFAULT_PORT

PORTS_MAX: Final = 320
"""Ports of each side of the largest that the design names."""

_SIZE = re.compile(r"([1-9][0-9]{0,3})x([1-9][0-9]{0,3})")


def sonic_ocs(size: str | None) -> Capabilities:
    """A `64x64` has ports 1A to 64A and 1B to 64B.

    Loss as in the design's example of factory insertion loss (1.58 to 1.85 dB). Settling, latching and atomic lists are
    stated nowhere: the driver waits until the switch says tuned, and relies on none of them.
    """
    if size is None:
        raise ConfigError("size: a sonic-ocs comes in many. Give it, such as 64x64")
    if (found := _SIZE.fullmatch(size)) is None:
        raise ConfigError(f"size {size!r}: not a size. Write ports on side A x ports on side B, such as 64x64")
    near, far = int(found[1]), int(found[2])
    if max(near, far) > PORTS_MAX:
        raise ConfigError(f"size {size}: {max(near, far)} ports of one side are over the {PORTS_MAX} of this model")
    ends = tuple(PortSide(port=str(port), side=Side.A) for port in range(1, near + 1))
    ends += tuple(PortSide(port=str(port), side=Side.B) for port in range(1, far + 1))
    return Capabilities(
        ends=ends,
        two_sided=True,
        reciprocal=True,
        latching=False,
        atomic_batches=False,
        moves_in_use=True,
        settle_s=0.1,
        loss_db_typical=1.65,
        loss_db_max=1.85,
        blockable=ends,
        reports_before=True,
    )


driver: Final = DriverSpec(
    name="sonic-ocs",
    open=SonicSwitch.open,
    check=check_login,
    options=SonicOptions,
    models={"sonic-ocs": sonic_ocs},
    twin="hwd_drivers.families.sonic.twin:TWIN",
    default_port=DEFAULT_PORT,
    sizes={"sonic-ocs": "8x8"},
    evidence=Evidence.VENDOR,
    threads=True,
)
