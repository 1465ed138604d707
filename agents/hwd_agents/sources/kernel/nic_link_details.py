"""Link details: what a NIC reports of its link beyond the carrier: why it is down, its speed, FEC, auto-negotiation.

The numbers are those of linux/ethtool.h and ethtool_netlink.h.
"""

from collections.abc import Mapping
from typing import Final

from pyroute2.netlink import NETLINK_GENERIC

from hwd_agents.wire.events import LinkStateData
from hwd_drivers.core.errors import LinkError, RefusedError
from hwd_drivers.core.offload import Offload

from .ethtool import Ethtool
from .netlink_requests import KernelRefusal, NetlinkRequests
from .sockets import Sockets

WHY: Final = (
    "autoneg",
    "link training failure",
    "link logical mismatch",
    "bad signal integrity",
    "no cable",
    "cable issue",
    "EEPROM issue",
    "calibration failure",
    "power budget exceeded",
    "overheat",
    "module",
)
"""The words of `ethtool` for enum ethtool_link_ext_state, by its numbers from 0."""

DETAIL: Final[Mapping[str, tuple[str, ...]]] = {
    "autoneg": (
        "no partner detected",
        "ack not received",
        "next page exchange failed",
        "no partner detected during force mode",
        "FEC mismatch during override",
        "no HCD",
    ),
    "link training failure": (
        "KR frame lock not acquired",
        "KR link inhibit timeout",
        "KR link partner did not set receiver ready",
        "remote side is not ready yet",
    ),
    "link logical mismatch": (
        "PCS did not acquire block lock",
        "PCS did not acquire AM lock",
        "PCS did not get align status",
        "FC FEC is not locked",
        "RS FEC is not locked",
    ),
    "bad signal integrity": (
        "large number of physical errors",
        "unsupported rate",
        "serdes reference clock lost",
        "serdes ALOS",
    ),
    "cable issue": ("unsupported cable", "cable test failure"),
    "module": ("CMIS module is not in the ready state",),
}
"""The words for enum ethtool_link_ext_substate_..., by their numbers from 1."""


class KernelLinkDetails:
    """Link details of the host on whose network `sockets` opens. They are read in a thread: firmware may be slow."""

    def __init__(self, sockets: Sockets, offload: Offload) -> None:
        self._sockets = sockets
        self._offload = offload

    async def read_details(self, interface: str) -> LinkStateData:
        """Read all values; one that the NIC does not support is None.

        Raises LinkError when the interface does not exist, RefusedError when its driver reports nothing.
        """
        return await self._offload(self._read, interface)

    def _read(self, interface: str) -> LinkStateData:
        with NetlinkRequests(self._sockets, NETLINK_GENERIC) as kernel:
            ethtool = Ethtool(kernel)
            try:
                state = ethtool.link_state(interface)
            except KernelRefusal as error:
                raise LinkError(f"{interface}: {error}") from error
            autoneg, speed = _modes(ethtool, interface)
            return LinkStateData(
                up=None if state.link is None else bool(state.link),
                why_down=None if state.link else why_words(state.why),
                detail=None if state.link else detail_words(state.why, state.detail),
                downs=state.downs,
                autoneg=autoneg,
                speed_mbps=speed,
                fec=_fec(ethtool, interface),
            )


def why_words(number: int | None) -> str | None:
    """An extended state in words; one of a newer kernel by its number."""
    if number is None:
        return None
    return WHY[number] if number < len(WHY) else f"extended state {number}"


def detail_words(why: int | None, number: int | None) -> str | None:
    """An extended substate in words."""
    words = why_words(why)
    if words is None or not number:
        return None
    known = DETAIL.get(words, ())
    return known[number - 1] if number <= len(known) else f"substate {number}"


def _modes(ethtool: Ethtool, interface: str) -> tuple[bool | None, int | None]:
    try:
        modes = ethtool.autoneg(interface)
    except (RefusedError, KernelRefusal):
        return None, None
    autoneg, speed = modes["autoneg"], modes["speed"]
    return bool(autoneg), speed if isinstance(speed, int) else None


def _fec(ethtool: Ethtool, interface: str) -> str | None:
    try:
        return ethtool.active_fec(interface)
    except (RefusedError, KernelRefusal):
        return None
