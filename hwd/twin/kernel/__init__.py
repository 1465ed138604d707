"""The kernel side of a twin rack: namespaces for hosts, veth pairs for NIC ports, a crossbar of redirects for light."""

from .crossbar import Bracket, Carrier, Change, Crossbar, Light, Plug
from .hosts import HostNetwork
from .keeper import SWITCH, Keeper, NamespacesUnavailableError, Privilege
from .messages import RATE_MOST_MBIT_S, requests_to
from .packet_switch import PacketSwitchBridge

__all__ = [
    "RATE_MOST_MBIT_S",
    "SWITCH",
    "Bracket",
    "Carrier",
    "Change",
    "Crossbar",
    "HostNetwork",
    "Keeper",
    "Light",
    "NamespacesUnavailableError",
    "PacketSwitchBridge",
    "Plug",
    "Privilege",
    "requests_to",
]
