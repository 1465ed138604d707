"""The settings of a NIC port that can be changed and restored, and the limits of their values."""

from enum import StrEnum
from typing import Final

MTU_LEAST, MTU_MOST = 68, 65_535
"""The limits of IPv4 itself (RFC 791); a NIC has narrower ones and reports them."""
METRIC_MOST: Final = 2**32 - 1


class Setting(StrEnum):
    """A setting of a NIC port that can be changed and restored."""

    MTU = "mtu"
    """The longest packet, in bytes."""
    AUTONEG = "autoneg"
    """Whether the NIC negotiates speed and FEC with the far end."""
    FEC = "fec"
    """Forward error correction."""
    ADDRESS = "address"
    """One more IP address."""
    NEIGHBOUR = "neighbour"
    """A static hardware address of a neighbour."""
    ROUTE = "route"
    """A route that leads out of the port."""
