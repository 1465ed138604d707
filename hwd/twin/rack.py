"""The twin rack: simulated switches and hosts, and the light between them.

    rack = TwinRack(testbed, dialer=dialer, clock=clock, ids=ids, places=lambda name: "127.0.0.1:0")
    addresses = await rack.start()      # {"ocs1": "127.0.0.1:40213", "h0": "unix:/run/.../h0.sock", ...}
    ...
    await rack.close()

Light goes from a transmitter through strands and tuned crossconnects to a receiver; a tuning crossconnect is dark.
Whenever a mirror changes, the light that it affects is traced again and NIC ports get it; their own changes (PHY,
carrier, RDMA) follow at their drawn times.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, Protocol

from hwd.model.instant import Origin
from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Host, Testbed
from hwd.twin.host_twin import HostTwin
from hwd.twin.nic import Nic, NicChange, What
from hwd.twin.nic_timing import nic_timing
from hwd.twin.rays import AffectedEnds, Rays
from hwd.twin.truth import Truth
from hwd_agents.sources.twin.hostwire_server import HostWireServer
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.ids import Draws, Ids
from hwd_drivers.devices import registry
from hwd_drivers.transports.dial import Dialer, Listener
from hwd_drivers.twins.registry import Twin, twin_of
from hwd_drivers.twins.timing import find_timing

TX_BELOW_MAX_DB: Final = (1.0, 3.0)
"""Lasers of a twin send this much below the maximum of their module: real ones are in the upper part of their range."""

LEAD_NS: Final = 1_500_000
"""Timers of asyncio fire up to a millisecond late, ten times the time from PHY to carrier: for kernel hosts they are
set so much earlier, and the loop waits actively for the rest.
"""


class KernelSide(Protocol):
    """The rack's effects in the kernel for its kernel hosts: `hwd.twin.kernelside`."""

    def light(self, receivers: Mapping[NicPortId, tuple[NicPortId, ...]]) -> None:
        """Redirect the light of these senders to these receivers; others are unchanged. Only ports of kernel hosts and
        of packet switches.
        """
        ...

    def carrier(self, port: NicPortId, up: bool, on_set: Callable[[int, int], None]) -> None:
        """Set the carrier of a port; `on_set` gets the stamps before and after, at once or when they are known."""
        ...


class TwinRack:
    """All twins of one testbed. Its real devices are not touched, and are dark.

    The draws of each twin come from its own seed in the testbed. With a `kernel`, kernel hosts and virtual machines
    have their links and packets in it, and packet switches pass packets on; packets do not pass between such a host and
    one in this process. Without one all hosts are in this process, and packet switches have light alone. `truth` gets
    the true times of all changes.
    """

    def __init__(
        self,
        testbed: Testbed,
        *,
        dialer: Dialer,
        clock: Clock,
        ids: Ids,
        places: Callable[[str], str],
        truth: Callable[[Truth], None] = lambda truth: None,
        kernel: KernelSide | None = None,
    ) -> None:
        self.testbed = testbed
        self.switches: dict[str, Twin] = {}
        self.hosts: dict[str, HostTwin] = {}
        self.nics: dict[NicPortId, Nic] = {}
        self._dialer = dialer
        self._clock = clock
        self._ids = ids
        self._places = places
        self._truth = truth
        self._kernel = kernel
        self._listeners: list[Listener] = []
        self._receivers: dict[NicPortId, dict[NicPortId, None]] = {}
        self._senders: dict[NicPortId, NicPortId | None] = {}
        """Whose light each port of a packet switch receives, on a kernel; that of a NIC port is in its `Nic`."""
        self._order: dict[NicPortId, int] = {}
        self._due: list[tuple[int, int, NicPortId]] = []
        self._queued: dict[NicPortId, int] = {}
        self._timer: asyncio.Handle | None = None
        sent_dbm: dict[NicPortId, tuple[float, ...]] = {}
        for host in testbed.hosts.values():
            if host.twin is not None:
                sent_dbm |= self._make_host(host, Draws(host.twin.seed))
        self._rays = Rays(testbed, sent_dbm)

    async def start(self) -> dict[str, str]:
        """Start every twin; returns {name of switch or host: address}."""
        addresses: dict[str, str] = {}
        for name, switch in self.testbed.switches.items():
            if switch.twin is None:
                continue
            twin = twin_of(registry.find(switch.driver)).make(
                name=name,
                capabilities=switch.capabilities,
                timing=find_timing(switch.twin.timing),
                draws=Draws(switch.twin.seed),
                clock=self._clock,
                dialer=self._dialer,
                address=self._places(name),
                options=switch.twin.options,
            )
            twin.mirror.on_change.append(partial(self._mirror_changed, name))
            self.switches[name] = twin
            addresses[name] = await twin.start()
        for name, host in self.hosts.items():
            listener = await self._dialer.listen(partial(HostWireServer, host, self._clock), self._places(name))
            self._listeners.append(listener)
            addresses[name] = listener.address
        now_ns = self._clock.monotonic_ns()
        for name, twin in self.switches.items():
            self._rays.pass_through(name, twin.mirror.lit_paths(now_ns))  # elements join something from the start
        self._light_changed(now_ns, self._rays.all_affected())
        return addresses

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """Where agents connect to their host twins."""
        return tuple(self._listeners)

    async def close(self) -> None:
        """Stop all twins and disconnect their agents; safe to call any number of times."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._due.clear()
        while self._listeners:
            await self._listeners.pop().close()
        for host in self.hosts.values():
            host.hang_up()
        for twin in self.switches.values():
            await twin.close()

    def carries(self, sender: NicPortId) -> tuple[NicPortId, ...]:
        """The ports that read the light of `sender` now."""
        return tuple(id for id in self._receivers.get(sender, ()) if id in self.nics)

    # --- settings and faults

    def change_nic(self, id: NicPortId, change: Callable[[Nic, int], None]) -> None:
        """Change a NIC port at the present time, and let it and the ports that receive its light start or stop."""
        now_ns = self._clock.monotonic_ns()
        others = self._lit_by([id])
        self._apply(now_ns, [id, *others])
        change(self.nics[id], now_ns)
        self._settle(now_ns, [id, *others], lambda: None)

    def change_light(self, change: Callable[[Rays], AffectedEnds]) -> None:
        """Change the light, and apply the effects."""
        self._light_changed(self._clock.monotonic_ns(), change(self._rays))

    # --- light

    def _mirror_changed(self, switch: str, now_ns: int) -> None:
        passing = self.switches[switch].mirror.lit_paths(now_ns)
        self._light_changed(now_ns, self._rays.pass_through(switch, passing))

    def _light_changed(self, now_ns: int, touched: AffectedEnds) -> None:
        """Update ports and monitors with the light that arrives now. Losses take effect before the kernel's light is
        redirected, gains after it.
        """
        for end in touched.switch_ends:
            if (twin := self.switches.get(end.owner)) is not None:
                twin.mirror.set_input(end.port_side, self._rays.at_switch(end), now_ns)
        ids = [id for id in touched.receivers if id in self.nics]
        self._apply(now_ns, ids)
        lost, electrical = self._light_of_packet_switches(touched)
        for id in ids:
            nic = self.nics[id]
            received = self._rays.received(id)
            if nic.sender is not None and nic.sender != received.sender:
                lost.append(nic.sender)
            nic.receive(now_ns, sender=received.sender, lanes_dbm=received.lanes_dbm)
        others = self._lit_by(touched.receivers)
        self._apply(now_ns, others)
        self._settle(now_ns, ids + others, lambda: self._redirect(ids + electrical, lost))

    def _light_of_packet_switches(self, touched: AffectedEnds) -> tuple[list[NicPortId], list[NicPortId]]:
        """Senders that a port of a packet switch receives no more, and its ports among the receivers."""
        lost: list[NicPortId] = []
        found: list[NicPortId] = []
        for id in touched.receivers if self._kernel is not None else ():
            if self._rays.is_packet_switch(id):
                before, self._senders[id] = self._senders.get(id), self._rays.sender_to(id)
                if before is not None and before != self._senders[id]:
                    lost.append(before)
                found.append(id)
        return lost, found

    def _sender_to(self, id: NicPortId) -> NicPortId | None:
        return self.nics[id].sender if id in self.nics else self._senders.get(id)

    def _settle(self, now_ns: int, settled: Iterable[NicPortId], redirect: Callable[[], None]) -> None:
        """Let ports start or stop; their losses come before `redirect`, their gains after it."""
        settled = list(settled)
        for id in settled:
            self.nics[id].settle(now_ns, far_end_reads=self._far_end_reads(self.nics[id].sender))
        after_ns = max(now_ns, self._clock.monotonic_ns())
        changes = [change for id in settled for change in self._advance_one(id, now_ns)]
        for change in changes:
            if not change.up:
                self._changed(change, now_ns, after_ns)
        redirect()
        for change in changes:
            if change.up:
                self._changed(change, now_ns, after_ns)
        self._arm()

    def _lit_by(self, touched: Iterable[NicPortId]) -> list[NicPortId]:
        """Other ports that receive the light of one whose light changed: its remote fault may rise or fall."""
        found = dict.fromkeys(touched)
        lit = dict.fromkeys(id for sender in found for id in self._receivers.get(sender, ()))
        return [id for id in lit if id not in found and id in self.nics]

    def _far_end_reads(self, sender: NicPortId | None) -> bool:
        if sender is None:
            return False
        if self._rays.is_packet_switch(sender):
            return self._rays.lights(sender)
        return self.nics[sender].reads

    def _redirect(self, ids: Iterable[NicPortId], lost: Iterable[NicPortId]) -> None:
        """Update `_receivers` and the kernel for ports whose light changed, and senders that lost one."""
        moved = dict.fromkeys(lost)
        for left in moved:
            for id in [id for id in self._receivers.get(left, ()) if self._sender_to(id) != left]:
                del self._receivers[left][id]
        for id in ids:
            sender = self._sender_to(id)
            if sender is not None and id not in self._receivers.setdefault(sender, {}):
                self._receivers[sender][id] = None
                moved[sender] = None
        if self._kernel is not None:
            kernel_moved = {
                sender: tuple(id for id in self._receivers.get(sender, ()) if self._has_packets(id))
                for sender in moved
                if self._has_packets(sender)
            }
            if kernel_moved:
                self._kernel.light(kernel_moved)

    # --- time

    def _apply(self, now_ns: int, ids: Iterable[NicPortId]) -> None:
        """Apply the changes that were due before now."""
        for id in ids:
            before_ns = self._clock.monotonic_ns()
            for change in self._advance_one(id, now_ns - 1):
                self._changed(change, before_ns, self._clock.monotonic_ns())

    def _advance_one(self, id: NicPortId, now_ns: int) -> tuple[NicChange, ...]:
        nic = self.nics[id]
        changes = nic.advance(now_ns)
        due_ns = nic.next_ns()
        if due_ns is not None and self._queued.get(id) != due_ns:
            heapq.heappush(self._due, (due_ns, self._order[id], id))
            self._queued[id] = due_ns
        return changes

    def _advance(self) -> None:
        """Apply what is due, then sleep until the next change."""
        self._timer = None
        now_ns = self._clock.monotonic_ns()
        while self._due and self._due[0][0] <= now_ns:
            due_ns, _, id = self._pop()
            if self.nics[id].next_ns() == due_ns:
                before_ns = self._clock.monotonic_ns()
                for change in self._advance_one(id, now_ns):
                    self._changed(change, before_ns, self._clock.monotonic_ns())
                now_ns = self._clock.monotonic_ns()
        self._arm()

    def _pop(self) -> tuple[int, int, NicPortId]:
        due_ns, order, id = heapq.heappop(self._due)
        if self._queued.get(id) == due_ns:
            del self._queued[id]
        return due_ns, order, id

    def _arm(self) -> None:
        while self._due and self.nics[self._due[0][2]].next_ns() != self._due[0][0]:
            self._pop()  # it was taken down meanwhile
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._due:
            return
        due_ns, _, id = self._due[0]
        wait_ns = due_ns - self._clock.monotonic_ns()
        loop = asyncio.get_running_loop()
        if self._is_kernel(id.host):
            wait_ns -= LEAD_NS
            if wait_ns <= 0:
                self._timer = loop.call_soon(self._advance)
                return
        self._timer = loop.call_later(max(0, wait_ns) / 1e9, self._advance)

    def _changed(self, change: NicChange, before_ns: int, after_ns: int) -> None:
        """Publish a change and its true time: changes with notices come at their drawn times, others can be
        read at once.
        """

        def publish_truth(before_ns: int, after_ns: int) -> None:
            self._truth(Truth(port=change.port, what=change.what, up=change.up, before_ns=before_ns, after_ns=after_ns))

        if change.what is What.CARRIER and self._kernel is not None and self._is_kernel(change.port.host):
            self._kernel.carrier(change.port, change.up, publish_truth)
        elif change.what in (What.CARRIER, What.PHY):
            publish_truth(change.at_ns, change.at_ns)
        elif change.what is not What.RDMA or not self._is_machine(change.port.host):  # the RDMA of a machine is its own
            publish_truth(before_ns, after_ns)
        stamp_ns = self._clock.wall_ns() - (self._clock.monotonic_ns() - change.at_ns)
        self.hosts[change.port.host].changed(change, stamp_ns=stamp_ns)

    def _deliver(self, port: NicPortId, source: tuple[str, int], target: tuple[str, int], payload: bytes) -> None:
        for receiver in self.carries(port):
            self.hosts[receiver.host].arrived(receiver, source, target, payload)

    # --- parts

    def _make_host(self, host: Host, draws: Draws) -> dict[NicPortId, tuple[float, ...]]:
        """Make the host and its NIC ports; returns their transmit powers, by lane."""
        assert host.twin is not None
        timing = nic_timing(host.twin.timing)
        low_db, high_db = TX_BELOW_MAX_DB
        nics: dict[NicPortId, Nic] = {}
        sent_dbm: dict[NicPortId, tuple[float, ...]] = {}
        for port in host.ports:
            lasers = draws.stream(f"nic/{port.id}/lasers")
            nics[port.id] = Nic(port.id, port.module, timing, draws.stream(f"nic/{port.id}/times"))
            sent_dbm[port.id] = tuple(
                port.module.tx_max_dbm - lasers.uniform(low_db, high_db) for _ in range(port.module.lanes)
            )
            self._order[port.id] = len(self._order)
        self.nics |= nics
        self.hosts[host.name] = HostTwin(
            host,
            nics,
            sent_dbm,
            life=self._ids.uuid(),
            links_here=not self._is_kernel(host.name),
            light_origin=self._light_origin(),
            deliver=self._deliver,
            change_nic=self.change_nic,
        )
        return sent_dbm

    def _light_origin(self) -> Origin:
        twins = [switch.twin for switch in self.testbed.switches.values() if switch.twin is not None]
        return Origin.FITTED if any(find_timing(twin.timing).fitted_to for twin in twins) else Origin.TWIN

    def _is_machine(self, host: str) -> bool:
        twin = self.testbed.hosts[host].twin if host in self.testbed.hosts else None
        return self._kernel is not None and twin is not None and twin.machine is not None

    def _has_packets(self, id: NicPortId) -> bool:
        """Whether the kernel passes the packets of this port: one of a kernel host, or of a packet switch."""
        return self._is_kernel(id.host) or (self._kernel is not None and self._rays.is_packet_switch(id))

    def _is_kernel(self, host: str) -> bool:
        twin = self.testbed.hosts[host].twin if host in self.testbed.hosts else None
        return self._kernel is not None and twin is not None and (twin.kernel or twin.machine is not None)
