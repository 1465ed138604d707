"""The kernel side of a twin rack: namespaces for hosts, veth pairs for NIC ports, a crossbar of redirects for light."""

from .crossbar import Bracket, Carrier, Change, Crossbar, Light, Plug
from .hosts import HostNetwork
from .keeper import SWITCH, Keeper, NamespacesUnavailableError, Privilege

__all__ = [
    "SWITCH",
    "Bracket",
    "Carrier",
    "Change",
    "Crossbar",
    "HostNetwork",
    "Keeper",
    "Light",
    "NamespacesUnavailableError",
    "Plug",
    "Privilege",
]
