"""Addresses, routes and neighbours of one twin host's network."""

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Interface
from typing import Final

from . import messages
from .crossbar import Plug
from .keeper import Keeper
from .messages import requests_to

_LOOPBACK_INDEX: Final = 1


class HostNetwork:
    """Sets up the namespace of one host. Routes to neighbours are /32: a host may be reached over any of its ports."""

    def __init__(self, keeper: Keeper, host: str) -> None:
        self._keeper = keeper
        self._host = host
        self._route = requests_to(keeper, host)
        self._addresses: dict[int, IPv4Address] = {}

    def prepare(self) -> None:
        """Set the loopback up, forward packets, which rings need, and switch the reverse path filter off.

        Then the port at which a packet arrives does not matter.
        """
        self._route.do([messages.set_up(_LOOPBACK_INDEX, up=True, says=f"switch on the loopback of {self._host}")])
        self._keeper.setting(self._host, "net/ipv4/ip_forward", "1")
        for which in ("all", "default"):
            self._keeper.setting(self._host, f"net/ipv4/conf/{which}/rp_filter", "0")

    def add_address(self, plug: Plug, address: IPv4Interface) -> None:
        """Give a port its address."""
        says = f"give {address} to {plug.port}"
        self._route.do([messages.add_address(plug.ifindex, address, says=says)])
        self._addresses[plug.ifindex] = address.ip

    def limit(self, plug: Plug, rate_mbit_s: float) -> None:
        """Send at most so much out of a port."""
        self._route.do([messages.limit_rate(plug.ifindex, rate_mbit_s, says=f"limit the rate of {plug.port}")])

    def know(self, plug: Plug, neighbours: Mapping[IPv4Address, str]) -> None:
        """Set hardware addresses, {address: hardware address}, of neighbours at this port, without a route to them.

        A socket that is bound to the port (SO_BINDTODEVICE) reaches them: where no route of the port leads there, the
        kernel takes them to be on its link.
        """
        self._route.do(
            [
                messages.set_neighbour(
                    plug.ifindex,
                    ip,
                    address,
                    says=f"know {ip} at {plug.port}",
                )
                for ip, address in neighbours.items()
            ]
        )

    def route(self, routes: Mapping[IPv4Address, tuple[Plug, IPv4Address | None]]) -> None:
        """Route each address over its port, for sockets that are bound to no port: straight, or via a neighbour there.

        Whatever has the address, or passes its packets on, must be a neighbour already.
        """
        self._route.do(
            [
                messages.set_route(
                    ip, plug.ifindex, self._addresses.get(plug.ifindex), via=via, says=f"reach {ip} over {plug.port}"
                )
                for ip, (plug, via) in routes.items()
            ]
        )

    def close(self) -> None:
        """Give the socket back."""
        self._route.close()
