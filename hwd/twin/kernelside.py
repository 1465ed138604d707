"""The kernel side of a rack: NIC ports as interfaces or, for virtual machines, as taps; light as redirects; packet
switches as bridges; static neighbours and routes.
"""

import asyncio
import errno
import logging
from collections.abc import Callable, Mapping
from functools import partial
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path
from typing import Final

from hwd.model.nic_port import NicPortId
from hwd.model.testbed import NicPort, Testbed
from hwd.twin.kernel import (
    RATE_MOST_MBIT_S,
    SWITCH,
    Bracket,
    Crossbar,
    HostNetwork,
    Keeper,
    Light,
    PacketSwitchBridge,
    Plug,
    requests_to,
)
from hwd.twin.kernel_hosts import kernel_hosts, machine_hosts
from hwd.twin.monitor import MachineMonitor
from hwd.twin.packet_ways import PacketWays, Way
from hwd.twin.rays import port_of
from hwd_agents.sources.kernel.netlink_requests import KernelRefusal
from hwd_drivers.core.clock import Clock

NIC_PREFIX: Final = "hwd-"
"""The NIC of port `eth0` is `hwd-eth0` in QEMU."""
_GONE: Final = frozenset({errno.ENODEV, errno.ENETDOWN})
"""Errors of the kernel for an interface that was removed, or set down."""
ROUTES_AFTER_S: Final = 0.01
"""So long after a change of light the routes over several hosts follow: the mirrors of one command come together."""

log = logging.getLogger(__name__)


class KernelNetwork:
    """The network of kernel hosts, a `hwd.twin.rack.KernelSide` on a keeper that was started with those of the testbed.

    Every port knows the hardware address of every other one: no ARP, which would cost a second after each dark time. A
    socket that is bound to a port sends to any address through it; other sockets follow the routes of `PacketWays`,
    over other hosts too. A route stays while light moves, so that connections outlive it. Neighbours and routes of
    virtual machines are their own.

    An interface that was removed or set down only affects itself: the switches' light and the other ports continue to
    work.

    `monitors`: by virtual machine, the socket of its monitor; `run` stays connected with them.
    """

    def __init__(self, testbed: Testbed, keeper: Keeper, clock: Clock, *, monitors: Mapping[str, Path]) -> None:
        machines = machine_hosts(testbed)
        self._ports = {port.id: port for host in (*kernel_hosts(testbed), *machines) for port in host.ports}
        self._addresses_of = {
            host.name: frozenset(_ip(port) for port in host.ports if port.ip is not None)
            for host in (*kernel_hosts(testbed), *machines)
        }
        self._monitors = {host.name: MachineMonitor(host.name, monitors[host.name], clock) for host in machines}
        self._crossbar = Crossbar(keeper, clock)
        self._networks: dict[str, HostNetwork] = {}
        self._plugs: dict[NicPortId, Plug] = {}
        self._ways = PacketWays(testbed)
        self._lit: frozenset[NicPortId] = frozenset()
        self._routed: dict[str, dict[IPv4Address, Way]] = {}
        self._reroute: asyncio.TimerHandle | None = None
        self._fibres = requests_to(keeper, SWITCH)
        try:
            for host in kernel_hosts(testbed):
                self._networks[host.name] = HostNetwork(keeper, host.name)
                self._networks[host.name].prepare()
            for port in self._ports.values():
                self._plug(port)
                if (monitor := self._monitors.get(port.id.host)) is not None:
                    monitor.set(f"{NIC_PREFIX}{port.id.port}", up=False, on_set=lambda before_ns, after_ns: None)
            self._plug_packet_switches(testbed)
            addresses = {
                _ip(port): self._plugs[port.id].address for port in self._ports.values() if port.ip is not None
            }
            for port in self._ports.values():
                if port.id.host in self._monitors:
                    continue
                own = self._own(port.id.host)
                others = {ip: address for ip, address in addresses.items() if ip not in own}
                self._networks[port.id.host].know(self._plugs[port.id], others)
        except BaseException:
            self.close()
            raise

    def light(self, receivers: Mapping[NicPortId, tuple[NicPortId, ...]]) -> None:
        """Redirect the light of these senders to these receivers, in one call to the kernel."""
        changes = [
            Light(from_port=sender, to_ports=tuple(self._ways.carried(sender))) for sender in self._ways.see(receivers)
        ]
        if not self._stands(lambda: self._crossbar.apply(changes)):
            for change in changes:
                self._light_one(change)
        before, self._lit = self._lit, self._ways.lit()
        for id in sorted(before ^ self._lit, key=str):
            self._stands(partial(self._crossbar.carrier, id, id in self._lit))
        at_host: dict[str, dict[IPv4Address, Way]] = {}
        for sender, id in ((sender, id) for sender, ids in receivers.items() for id in ids):
            if sender in self._ports and id in self._ports and (ip := self._foreign_ip(sender, id.host)) is not None:
                at_host.setdefault(id.host, {})[ip] = Way(port=id)
        self._set_routes(at_host)
        if self._reroute is None:
            self._reroute = asyncio.get_running_loop().call_later(ROUTES_AFTER_S, self._set_changed_routes)

    def carrier(self, port: NicPortId, up: bool, on_set: Callable[[int, int], None]) -> None:
        """Set the carrier of a port; `on_set` gets the stamps before and after, of a virtual machine when it
        has answered.
        """
        if (monitor := self._monitors.get(port.host)) is not None:
            monitor.set(f"{NIC_PREFIX}{port.port}", up=up, on_set=on_set)
            return
        brackets: list[Bracket] = []
        if self._stands(lambda: brackets.append(self._crossbar.carrier(port, up))):
            on_set(brackets[0].before_ns, brackets[0].after_ns)

    async def run(self) -> None:
        """Stay connected with the virtual machines until cancelled."""
        async with asyncio.TaskGroup() as group:
            for host, monitor in self._monitors.items():
                group.create_task(monitor.run(), name=f"hwd:{host}/monitor")

    def taps(self, host: str) -> dict[str, Plug]:
        """The interface that each NIC of a virtual machine is connected to, by port name."""
        return {id.port: plug for id, plug in self._plugs.items() if id.host == host}

    def close(self) -> None:
        """Close the sockets; what they made is removed with the keeper."""
        if self._reroute is not None:
            self._reroute.cancel()
            self._reroute = None
        self._crossbar.close()
        self._fibres.close()
        for network in self._networks.values():
            network.close()
        self._networks.clear()

    def _light_one(self, change: Light) -> None:
        """Redirect to the receivers that exist; a missing one must not leave the light where it was."""
        if self._stands(lambda: self._crossbar.apply([change])):
            return
        there: list[str] = []
        self._stands(lambda: self._crossbar.darken(change.from_port))
        for port in change.to_ports:
            more = Light(from_port=change.from_port, to_ports=(*there, port))
            if self._stands(partial(self._crossbar.apply, [more])):
                there.append(port)

    def _stands(self, do: Callable[[], object]) -> bool:
        """Whether all interfaces of `do` exist; another error is raised."""
        try:
            do()
        except KernelRefusal as error:
            if error.number not in _GONE:
                raise
            log.warning(
                "%s: it was removed or set down. Use `ip link set up` in its host, or restart the rack",
                error,
            )
            return False
        return True

    def _plug(self, port: NicPort) -> None:
        if port.id.host in self._monitors:
            self._plugs[port.id] = self._crossbar.plug_tap(port.id, host=port.id.host, interface=port.interface)
            return
        plug = self._crossbar.plug(port.id, host=port.id.host, interface=port.interface)
        self._plugs[port.id] = plug
        if port.ip is not None:
            self._networks[port.id.host].add_address(plug, IPv4Interface(port.ip))
        if port.rate_mbit_s is not None and port.rate_mbit_s <= RATE_MOST_MBIT_S:  # no machine is faster than that
            self._networks[port.id.host].limit(plug, port.rate_mbit_s)

    def _plug_packet_switches(self, testbed: Testbed) -> None:
        """A bridge for each packet switch that has fibres, and a plug for each of its ports with one."""
        used = {port_of(end): None for strand in testbed.strands for end in strand.ends}
        for number, switch in enumerate(testbed.packet_switches.values(), start=1):
            ports = [id for id in used if id.host == switch.name]
            if ports:
                bridge = PacketSwitchBridge(
                    self._crossbar, self._fibres, name=switch.name, number=number, rate_mbit_s=switch.rate_mbit_s
                )
                self._plugs |= {id: bridge.plug(id, int(id.port)) for id in ports}

    def _set_changed_routes(self) -> None:
        """Set the routes that are not as they were set last."""
        self._reroute = None
        routes = self._ways.routes()
        self._set_routes(
            {
                host: {ip: way for ip, way in ways.items() if self._routed.get(host, {}).get(ip) != way}
                for host, ways in routes.items()
            }
        )

    def _set_routes(self, ways_of: Mapping[str, Mapping[IPv4Address, Way]]) -> None:
        for host, ways in ways_of.items():
            if not ways or host not in self._networks:
                continue
            hops = {ip: (self._plugs[way.port], way.via) for ip, way in ways.items()}
            if self._stands(partial(self._networks[host].route, hops)):
                self._routed.setdefault(host, {}).update(ways)

    def _foreign_ip(self, id: NicPortId, host: str) -> IPv4Address | None:
        """The address of a port, unless it has none, or the host has it too."""
        port = self._ports[id]
        return ip if port.ip is not None and (ip := _ip(port)) not in self._own(host) else None

    def _own(self, host: str) -> frozenset[IPv4Address]:
        return self._addresses_of.get(host, frozenset())


def _ip(port: NicPort) -> IPv4Address:
    assert port.ip_address is not None
    return IPv4Address(port.ip_address)
