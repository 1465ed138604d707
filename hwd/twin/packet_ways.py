"""Where packets go in a rack: from port to port along the light, and on through packet switches and hosts.

ways = PacketWays(testbed)
ways.see({NicPortId.parse("h0.eth0"): (NicPortId.parse("h1.eth0"),)})
ways.routes()["h0"]  # by address of another port: out of which port, via which neighbour
"""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address

from hwd.fabric.light import LightMap
from hwd.fabric.next_hops import next_hops
from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Testbed
from hwd.twin.kernel_hosts import kernel_hosts, machine_hosts
from hwd.twin.rays import port_of

_Reaches = dict[NicPortId, list[NicPortId]]
_Pair = tuple[NicPortId, NicPortId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Out of `port`: to the neighbour `via`, which passes it on, or straight to where it is for (None)."""

    port: NicPortId
    via: IPv4Address | None = None


class PacketWays:
    """The way of packets for one state of the light, which `see` gets change by change.

    Addresses of ports on packet switches are reached through packet switches alone, all others over optical links
    alone: so a fibre that is cut cuts what went over it, and nothing goes silently another way. A port between a packet
    switch and which there is an optical switch belongs to those that it has light from.
    """

    def __init__(self, testbed: Testbed) -> None:
        self._packet_switches = testbed.packet_switches
        hosts = (*kernel_hosts(testbed), *machine_hosts(testbed))
        self._ips = {
            port.id: IPv4Address(port.ip_address)
            for host in hosts
            for port in host.ports
            if port.ip_address is not None
        }
        self._forwarding = frozenset(host.name for host in kernel_hosts(testbed))
        """Hosts that pass packets on, and whose routes are set here; those of a virtual machine are its own."""
        self._wired = frozenset(
            port_of(trace.end)
            for trace in LightMap(testbed).traces({})
            if trace.source.owner in testbed.packet_switches and trace.end.owner not in testbed.switches
        )
        """Ports that a fibre joins with a packet switch, without an optical switch in between."""
        self._light: dict[NicPortId, tuple[NicPortId, ...]] = {}
        self._idle: frozenset[_Pair] = frozenset()
        """Lit fibres between packet switches that pass no packets: they would close a loop, or are lit one way."""
        self._joined = {name: name for name in self._packet_switches}

    def see(self, light: Mapping[NicPortId, tuple[NicPortId, ...]]) -> tuple[NicPortId, ...]:
        """The light of these senders arrives at these ports now. Returns the senders whose packets go elsewhere now."""
        self._light.update(light)
        before = self._idle
        self._join()
        others = sorted((sender for sender, _ in before ^ self._idle), key=NicPortId.sort_key)
        return tuple(dict.fromkeys([*light, *others]))

    def carried(self, sender: NicPortId) -> tuple[NicPortId, ...]:
        """The ports at which packets of a port arrive."""
        return tuple(id for id in self._light.get(sender, ()) if (sender, id) not in self._idle)

    def lit(self) -> frozenset[NicPortId]:
        """Ports of packet switches that receive light."""
        return frozenset(id for ids in self._light.values() for id in ids if self._is_electrical(id))

    def routes(self) -> dict[str, dict[IPv4Address, Way]]:
        """The way of each host that forwards to each address that it reaches; one that it does not is left out."""
        optical, electrical = self._reaches()
        on_packet_switch = self._wired.union(*electrical.values())
        found: dict[str, dict[IPv4Address, Way]] = {}
        for reaches, apart in ((optical, False), (electrical, True)):
            hops = next_hops(reaches)
            straight = {(port.host, id): port for port, ids in reversed(reaches.items()) for id in ids}
            for host in (host for host in hops if host in self._forwarding):
                for id, ip in self._ips.items():
                    if (id in on_packet_switch) is not apart or id.host not in hops[host]:
                        continue
                    if (port := straight.get((host, id))) is not None:
                        way = Way(port=port)
                    else:
                        hop = hops[host][id.host]
                        way = Way(port=hop.port, via=self._ips[hop.to])
                    found.setdefault(host, {})[ip] = way
        return found

    def _reaches(self) -> tuple[_Reaches, _Reaches]:
        """The ports with an address where what each port of a host sends arrives: over light, and through packet
        switches.
        """
        optical: _Reaches = {}
        electrical: _Reaches = {}
        networks = self._networks()
        for port in self._ips:
            if port.host not in self._forwarding:
                continue
            for id in self._light.get(port, ()):
                if not self._is_electrical(id):
                    if id in self._ips:
                        optical.setdefault(port, []).append(id)
                    continue
                others = networks.get(self._network_of(id), [])
                electrical.setdefault(port, []).extend(other for other in others if other.host != port.host)
        return optical, electrical

    def _networks(self) -> dict[str, list[NicPortId]]:
        """The ports of hosts that packet switches light, by the switch that stands for all that are joined with it."""
        found: dict[str, list[NicPortId]] = {}
        for sender, ids in self._light.items():
            if self._is_electrical(sender):
                found.setdefault(self._network_of(sender), []).extend(id for id in ids if id in self._ips)
        return found

    def _join(self) -> None:
        """Join the packet switches that light joins, both ways, in the order of their ports, without a loop."""
        self._joined = {name: name for name in self._packet_switches}
        idle: set[_Pair] = set()
        for one, other in sorted(self._trunks(), key=lambda trunk: (trunk[0].sort_key(), trunk[1].sort_key())):
            ours, theirs = self._network_of(one), self._network_of(other)
            if ours != theirs and other in self._light.get(one, ()) and one in self._light.get(other, ()):
                self._joined[ours] = theirs
            else:
                idle |= {(one, other), (other, one)}
        self._idle = frozenset(idle)

    def _trunks(self) -> set[_Pair]:
        """Pairs of ports of packet switches of which one at least receives the other's light; the first one first."""
        return {
            (sender, id) if sender.sort_key() < id.sort_key() else (id, sender)
            for sender, ids in self._light.items()
            if self._is_electrical(sender)
            for id in ids
            if self._is_electrical(id)
        }

    def _network_of(self, port: NicPortId) -> str:
        """The packet switch that stands for all that are joined with that of a port."""
        name = port.host
        while self._joined[name] != name:
            name = self._joined[name]
        return name

    def _is_electrical(self, id: NicPortId) -> bool:
        return id.host in self._packet_switches
