"""The twin rack: simulated switches and hosts, and the light between them.

    rack = TwinRack(testbed, dialer=dialer, clock=clock, draws=Draws(7), places=lambda name: "127.0.0.1:0")
    addresses = await rack.start()      # {"ocs1": "127.0.0.1:40213", "h0": "unix:/run/.../h0.sock", ...}
    ...
    await rack.close()

Light goes from a transmitter through strands and tuned crossconnects to a receiver; what is tuning is dark. Whenever a mirror changes, the light of the
whole rack is worked out anew, NIC ports are told, and what they make of it (PHY, carrier, RDMA) comes at its drawn time.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from hwd_agents.sources.hostwire import HostWireServer
from hwd_drivers.kit import registry
from hwd_drivers.kit.clock import Clock
from hwd_drivers.kit.dial import Dialer, Listener
from hwd_drivers.kit.ids import Draws
from hwd_drivers.kit.server import SwitchTwin
from hwd_drivers.kit.values import CrossconnectState, FibreEnd, Side

from hwd.fabric.light import LightMap, light_map
from hwd.model.link import SwitchCrossconnect
from hwd.model.testbed import NicPort, NicPortId, Testbed
from hwd.twin.host import HostTwin
from hwd.twin.nic import Nic, NicChange, What
from hwd.twin.timing import nic_timing
from hwd.twin.truth import Truth

log = logging.getLogger(__name__)

TX_BELOW_MAX_DB = (1.0, 3.0)
"""Lasers of a twin send this much below the most that their module may: real ones sit in the upper part of their range."""


class KernelSide(Protocol):
    """What a rack does to the kernel for its kernel hosts: `hwd.twin.kernelside`."""

    def follow(self, light: Mapping[NicPortId, tuple[NicPortId, ...]]) -> None:
        """From now on light goes so: {sender: receivers}."""
        ...

    def carrier(self, port: NicPortId, up: bool) -> tuple[int, int]:
        """Set the carrier of a port; returns the stamps before and after."""
        ...


class TwinRack:
    """All twins of one testbed. Real devices of the testbed file are left alone, and dark."""

    def __init__(
        self,
        testbed: Testbed,
        *,
        dialer: Dialer,
        clock: Clock,
        draws: Draws,
        places: Callable[[str], str],
        truth: Callable[[Truth], None] = lambda truth: None,
        kernel: KernelSide | None = None,
    ) -> None:
        self.testbed = testbed
        self.switches: dict[str, SwitchTwin] = {}
        self.hosts: dict[str, HostTwin] = {}
        self.nics: dict[NicPortId, Nic] = {}
        self._dialer = dialer
        self._clock = clock
        self._draws = draws
        self._places = places
        self._truth = truth
        self._kernel = kernel
        self._listeners: list[Listener] = []
        self._tx_dbm: dict[NicPortId, tuple[float, ...]] = {}
        self._ports: dict[NicPortId, NicPort] = {}
        self._receivers: dict[NicPortId, tuple[NicPortId, ...]] = {}
        self._light: LightMap | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._settling = False

    async def start(self) -> dict[str, str]:
        """Open every twin; returns {name of switch or host: address}."""
        addresses: dict[str, str] = {}
        self._make_hosts()
        for name, switch in self.testbed.switches.items():
            if switch.twin is None:
                continue
            twin = registry.find(switch.driver).twin(
                name=name,
                capabilities=switch.capabilities,
                timing=switch.twin.timing,
                seed=switch.twin.seed,
                clock=self._clock,
                dialer=self._dialer,
                address=self._places(name),
                options=switch.options,
            )
            self.switches[name] = twin
            twin.mirror.on_change.append(lambda now_ns: self._light_changed())
            addresses[name] = await twin.start()
        for name, host in self.hosts.items():
            listener = await self._dialer.listen(lambda host=host: HostWireServer(host, self._clock), self._places(name))  # type: ignore[misc]
            self._listeners.append(listener)
            addresses[name] = listener.address
        self._light_changed()
        return addresses

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for listener in self._listeners:
            await listener.close()
        for twin in self.switches.values():
            await twin.close()

    # --- light

    def _light_changed(self) -> None:
        """Work out where light goes now, and tell every port."""
        now_ns = self._clock.monotonic_ns()
        passing: dict[SwitchCrossconnect, float] = {}
        for name, twin in self.switches.items():
            for reading in twin.mirror.readings(now_ns):
                if reading.state is CrossconnectState.TUNED:
                    passing[SwitchCrossconnect(switch=name, crossconnect=reading.crossconnect)] = twin.mirror.loss_db(reading.crossconnect)
        light = light_map(self.testbed, passing, self._sent_dbm)
        receivers: dict[NicPortId, list[NicPortId]] = {}
        for id, nic in self.nics.items():
            sender, lanes_dbm = self._received(light, id)
            nic.receive(now_ns, sender=sender, lanes_dbm=lanes_dbm)
            if sender is not None:
                receivers.setdefault(sender, []).append(id)
            nic_sender = sender
            self._senders[id] = nic_sender
        for id, nic in self.nics.items():
            sender = self._senders[id]
            nic.remote(now_ns, receives=sender is not None and sender in self.nics and self.nics[sender].is_up(What.LIGHT))
        for name, twin in self.switches.items():
            for end, power_dbm in light.at_switch(name).items():
                twin.mirror.set_input(end, power_dbm)
        self._receivers = {sender: tuple(ids) for sender, ids in receivers.items()}
        if self._kernel is not None:
            self._kernel.follow(self._receivers)
        self._advance()

    def _received(self, light: LightMap, id: NicPortId) -> tuple[NicPortId | None, tuple[float | None, ...]]:
        """Who sends to a port, and the power of each lane; lanes from several senders make no sender."""
        module = self._ports[id].module
        senders: set[NicPortId] = set()
        lanes: list[float | None] = []
        for end in self._ports[id].ends(Side.RX):
            arriving = light.at_receiver(end)
            if arriving is None:
                lanes += [None] * (1 if module.parallel else module.lanes)
                continue
            senders.add(NicPortId(host=arriving.source.owner, port=arriving.source.port))
            sent = self._lane_powers(arriving.source)
            lanes += [power_dbm - arriving.loss_db for power_dbm in sent]
        lanes = (lanes + [None] * module.lanes)[: module.lanes]
        return (next(iter(senders)) if len(senders) == 1 else None), tuple(lanes)

    def _lane_powers(self, source: FibreEnd) -> tuple[float, ...]:
        """Power of each lane that leaves one transmitter's fibre."""
        powers = self._tx_dbm.get(NicPortId(host=source.owner, port=source.port), ())
        return powers[source.lane - 1 : source.lane] if source.lane else powers

    # --- time

    def _advance(self) -> None:
        """Do what is due, then sleep until the next thing is."""
        now_ns = self._clock.monotonic_ns()
        for nic in self.nics.values():
            for change in nic.advance(now_ns):
                self._changed(change)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = [due_ns for nic in self.nics.values() if (due_ns := nic.next_ns()) is not None]
        if due:
            delay_s = max(0, min(due) - self._clock.monotonic_ns()) / 1e9
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._advance)

    def _changed(self, change: NicChange) -> None:
        before_ns = after_ns = self._clock.monotonic_ns()
        if self._kernel is not None and change.what is What.CARRIER and self._is_kernel(change.port.host):
            before_ns, after_ns = self._kernel.carrier(change.port, change.up)
        self._truth(Truth(port=change.port, what=change.what, up=change.up, before_ns=before_ns, after_ns=after_ns))
        self.hosts[change.port.host].changed(change, stamp_ns=self._clock.wall_ns())

    def _deliver(self, port: NicPortId, source: tuple[str, int], target: tuple[str, int], payload: bytes) -> None:
        for receiver in self._receivers.get(port, ()):
            self.hosts[receiver.host].arrived(receiver, source, target, payload)

    # --- parts

    def _make_hosts(self) -> None:
        for host in self.testbed.hosts.values():
            if host.twin is None:
                continue
            rng = self._draws.stream(f"{host.name}/{host.twin.seed}")
            nics: dict[NicPortId, Nic] = {}
            for port in host.ports:
                nics[port.id] = Nic(port.id, port.module, nic_timing(host.twin.timing), rng)
                low, high = TX_BELOW_MAX_DB
                self._tx_dbm[port.id] = tuple(port.module.tx_max_dbm - rng.uniform(low, high) for _ in range(port.module.lanes))
                self._ports[port.id] = port
            self.nics |= nics
            self.hosts[host.name] = HostTwin(
                host, nics, self._tx_dbm, life=f"{host.name}/{rng.getrandbits(32):08x}", links_here=not self._is_kernel(host.name), deliver=self._deliver
            )

    def _is_kernel(self, host: str) -> bool:
        twin = self.testbed.hosts[host].twin
        return self._kernel is not None and twin is not None and twin.kernel
