"""Light in the kernel: a veth pair a NIC port, and redirects between the fibre ends of the pairs."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hwd_agents.sources.kernel.netlink_requests import NetlinkRequests, Request
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import ConfigError, RefusedError

from . import messages
from .keeper import SWITCH, Keeper
from .messages import requests_to

HOST_INDEX: Final = 100
FIBRE_INDEX: Final = 1_000_000
"""The two ends of a pair never have the same index: host ends count from one of these, fibre ends from the other."""

DEFAULT_MTU_BYTES: Final = 1500
_NAME_LIMIT_BYTES: Final = 15  # IFNAMSIZ without its closing zero


@dataclass(frozen=True, slots=True, kw_only=True)
class Bracket:
    """The change took effect between the two stamps."""

    before_ns: int
    after_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plug:
    """A NIC port with a fibre in it. A port that is plugged again gets new indexes.

    `tap`: the tap device, where the NIC is that of a virtual machine; it is the fibre end. `ifindex` is 0 then, since
    it is unknown here.
    """

    port: str
    host: str
    interface: str
    ifindex: int
    fibre_ifindex: int
    address: str
    tap: str = ""

    def __str__(self) -> str:
        return f"{self.port} is {self.interface} (#{self.ifindex}, {self.address}) of {self.host}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Light:
    """The light of `from_port` arrives at each of `to_ports` from now on; with none it is dark. One direction only."""

    from_port: str
    to_ports: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    """The NIC at `port` has carrier from now on, or has none; without, it also sends nothing."""

    port: str
    up: bool


Change = Light | Carrier


class Crossbar:
    """The fibre ends of all NIC ports of a rack. New ports are dark and have no carrier.

        crossbar = Crossbar(keeper, clock)
        crossbar.plug("h0.eth0", host="h0", interface="eth0")
        crossbar.plug("h1.eth0", host="h1", interface="eth0")
        crossbar.apply([Light(from_port="h0.eth0", to_ports=("h1.eth0",)), Carrier(port="h1.eth0", up=True)])

    Calls return when the kernel has done it, in well under a millisecond.
    """

    def __init__(self, keeper: Keeper, clock: Clock) -> None:
        self._keeper = keeper
        self._clock = clock
        self._route = requests_to(keeper, SWITCH)
        self._host_routes: dict[str, NetlinkRequests] = {}
        self._plugs: dict[str, Plug] = {}
        self._targets: dict[str, tuple[str, ...]] = {}
        self._count = 0

    @property
    def plugs(self) -> dict[str, Plug]:
        """What is plugged, by port."""
        return dict(self._plugs)

    def plug(
        self, port: str, *, host: str, interface: str, address: str = "", mtu_bytes: int = DEFAULT_MTU_BYTES
    ) -> Plug:
        """Make the interface of a NIC port, up and dark.

        Without an `address` the port's name makes one, always the same.
        """
        if port in self._plugs:
            raise ConfigError(f"{port}: cannot plug: there is a fibre already. Unplug it first")
        if not 0 < len(interface.encode()) <= _NAME_LIMIT_BYTES:
            raise ConfigError(f"{port}: cannot make interface {interface!r}: names have 1 to {_NAME_LIMIT_BYTES} bytes")
        self._count += 1
        plug = Plug(
            port=port,
            host=host,
            interface=interface,
            ifindex=HOST_INDEX + self._count,
            fibre_ifindex=FIBRE_INDEX + self._count,
            address=address or derived_address(port),
        )
        namespace = self._keeper.namespace(host)
        try:
            pair = messages.add_pair(
                near=f"fibre{self._count}",
                near_index=plug.fibre_ifindex,
                far=interface,
                far_index=plug.ifindex,
                far_namespace=namespace,
                address=plug.address,
                mtu=mtu_bytes,
                says=f"make interface {interface} of {host} for {port}",
            )
            self._route.do([pair])
        finally:
            os.close(namespace)
        self._plugs[port] = plug
        messages.encode_redirect((plug.fibre_ifindex,))  # now, so that the first light to it is as quick as any other
        self._route.do([messages.add_clsact(plug.fibre_ifindex, says=f"prepare the fibre of {port}")])
        self._host_route(host).do([messages.set_up(plug.ifindex, up=True, says=f"switch on {interface} of {host}")])
        return plug

    def plug_tap(self, port: str, *, host: str, interface: str) -> Plug:
        """Make a tap device for the NIC port of a virtual machine, up and dark.

        Its carrier is not ours to set, and its packets are of any length.
        """
        if port in self._plugs:
            raise ConfigError(f"{port}: cannot plug: there is a fibre already. Unplug it first")
        self._count += 1
        plug = Plug(
            port=port,
            host=host,
            interface=interface,
            ifindex=0,
            fibre_ifindex=FIBRE_INDEX + self._count,
            address=derived_address(port),
            tap=f"fibre{self._count}",
        )
        try:
            os.close(self._keeper.tap(SWITCH, plug.tap, plug.fibre_ifindex))
        except OSError as error:
            raise RefusedError(f"{port}: cannot make a tap device for its machine: {error.strerror}") from error
        self._plugs[port] = plug
        messages.encode_redirect((plug.fibre_ifindex,))
        says = f"prepare the fibre of {port}"
        self._route.do(
            [
                messages.add_clsact(plug.fibre_ifindex, says=says),
                messages.set_up(plug.fibre_ifindex, up=True, says=says),
            ]
        )
        return plug

    def unplug(self, port: str) -> None:
        """Remove the interface; light from it and to it is gone, and does not come back with a new plug."""
        plug = self._plug(port)
        for source, targets in list(self._targets.items()):
            if source != port and port in targets:
                self.apply([Light(from_port=source, to_ports=tuple(other for other in targets if other != port))])
        self._targets.pop(port, None)
        self._route.do([messages.delete_interface(plug.fibre_ifindex, says=f"unplug {port}")])
        del self._plugs[port]

    def apply(self, changes: Sequence[Change]) -> Bracket:
        """Do all, in order, in one call to the kernel (one for each 64); all took place within the bracket.

        Raises KernelRefusal for the first that was refused; the others were done all the same.
        """
        requests = [self._request(change) for change in changes]
        before_ns = self._clock.monotonic_ns()
        self._route.do(requests)
        after_ns = self._clock.monotonic_ns()
        for change in changes:
            if isinstance(change, Light):
                self._targets[change.from_port] = change.to_ports
        return Bracket(before_ns=before_ns, after_ns=after_ns)

    def light(self, from_port: str, to_port: str) -> Bracket:
        """What `from_port` sends arrives at `to_port` and nowhere else."""
        return self.apply([Light(from_port=from_port, to_ports=(to_port,))])

    def darken(self, from_port: str) -> Bracket:
        """What `from_port` sends arrives nowhere."""
        return self.apply([Light(from_port=from_port, to_ports=())])

    def carrier(self, port: str, up: bool) -> Bracket:
        """The NIC at `port` gets carrier, or loses it."""
        return self.apply([Carrier(port=port, up=up)])

    def close(self) -> None:
        """Give the socket back; interfaces stay until they are unplugged or the keeper ends."""
        self._route.close()
        for route in self._host_routes.values():
            route.close()
        self._host_routes.clear()

    def _request(self, change: Change) -> Request:
        match change:
            case Light(from_port=source, to_ports=()):
                return messages.end_redirect(self._plug(source).fibre_ifindex, says=f"darken {source}")
            case Light(from_port=source, to_ports=targets):
                return messages.redirect(
                    self._plug(source).fibre_ifindex,
                    [self._plug(target).fibre_ifindex for target in targets],
                    says=f"light {', '.join(targets)} from {source}",
                )
            case Carrier(port=port, up=up):
                says = f"{'give' if up else 'take'} carrier {'to' if up else 'from'} {port}"
                return messages.set_up(self._plug(port).fibre_ifindex, up=up, says=says)

    def _host_route(self, host: str) -> NetlinkRequests:
        if host not in self._host_routes:
            self._host_routes[host] = requests_to(self._keeper, host)
        return self._host_routes[host]

    def _plug(self, port: str) -> Plug:
        plug = self._plugs.get(port)
        if plug is None:
            raise ConfigError(f"{port}: no such port in this crossbar. Plug it first")
        return plug


def derived_address(port: str) -> str:
    """A hardware address that is locally administered and always the same for a port."""
    return "02:" + hashlib.sha256(port.encode()).digest()[:5].hex(":")
