"""A packet switch in the kernel: a bridge beside the fibre ends, with a veth pair for each of its ports in use."""

from typing import Final

from hwd_agents.sources.kernel.netlink_requests import NetlinkRequests

from . import messages
from .crossbar import Crossbar, Plug
from .keeper import SWITCH

_INDEX: Final = 2_000_000
"""The index of the first bridge: above all fibre ends."""
_LONGEST_BYTES: Final = 65_535
"""As its fibres do, it takes frames of any length."""


class PacketSwitchBridge:
    """Forwards frames between the ports that are plugged, by hardware address. `number` is its own among the bridges.

    `rate_mbit_s`: what each port passes at most, each way; None: as fast as the machine is.
    """

    def __init__(
        self, crossbar: Crossbar, route: NetlinkRequests, *, name: str, number: int, rate_mbit_s: float | None
    ) -> None:
        self._crossbar = crossbar
        self._route = route
        self._rate_mbit_s = rate_mbit_s
        self._number = number
        self._index = _INDEX + number
        says = f"make a bridge for packet switch {name}"
        route.do([messages.add_bridge(f"bridge{number}", self._index, says=says)])

    def plug(self, port: str, number: int) -> Plug:
        """Plug a fibre into port `number` of it, `eps1.3`; dark, and without carrier."""
        plug = self._crossbar.plug(port, host=SWITCH, interface=f"b{self._number}p{number}", mtu_bytes=_LONGEST_BYTES)
        requests = [messages.join_bridge(plug.ifindex, self._index, says=f"make {port} a port of its bridge")]
        if self._rate_mbit_s is not None:
            # out of the bridge towards the fibre, and out of the fibre towards the bridge
            for ifindex in (plug.ifindex, plug.fibre_ifindex):
                requests.append(messages.limit_rate(ifindex, self._rate_mbit_s, says=f"limit the rate of {port}"))
        self._route.do(requests)
        return plug
