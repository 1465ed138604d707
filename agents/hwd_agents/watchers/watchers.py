"""Watchers: creates the watchers of one host and connects them: a change of the carrier starts probe and RDMA polls."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from hwd_agents.probes import rc_recovery as rc
from hwd_agents.probes import readiness as probe
from hwd_agents.probes import verbs_ports
from hwd_agents.probes.rc_recovery import RcRecovery
from hwd_agents.probes.readiness import Probe
from hwd_agents.probes.verbs_ports import VerbsPorts
from hwd_agents.process.config import AgentConfig
from hwd_agents.sources.link_source import LinkReading
from hwd_agents.sources.sources import Sources
from hwd_agents.sources.verbs.verbs import PortEvent
from hwd_agents.spool.outbox import Outbox
from hwd_agents.spool.spool import Spool
from hwd_agents.watchers import counter_watcher as counters
from hwd_agents.watchers import firmware_watcher as firmware
from hwd_agents.watchers import link_detail_watcher as link_details
from hwd_agents.watchers import link_watcher as link
from hwd_agents.watchers import optics_watcher as optics
from hwd_agents.watchers import rdma_watcher as rdma
from hwd_agents.watchers.counter_watcher import CounterWatcher
from hwd_agents.watchers.firmware_watcher import FirmwareWatcher
from hwd_agents.watchers.link_detail_watcher import LinkDetailWatcher
from hwd_agents.watchers.link_watcher import LinkWatcher
from hwd_agents.watchers.optics_watcher import OpticsWatcher
from hwd_agents.watchers.per_port import PerPort, Watcher
from hwd_agents.watchers.rdma_watcher import RdmaWatcher
from hwd_agents.wire import Observation, Peer, PortNote, SourceNote
from hwd_drivers.core.clock import Clock

BASELINE_S: Final = 0.5
"""Longest wait for the first reading of the ports of an observation; a module takes 30 ms over I2C."""
RECOVERY_S: Final = 0.7
"""The daemon waits 1 s for an answer. A later result is reported by its event, and is not in the timeline."""


class Watchers:
    """All watchers of a host's ports. Each port's notes name the sources that are missing."""

    def __init__(
        self,
        config: AgentConfig,
        sources: Sources,
        clock: Clock,
        outbox: Outbox,
        spool: Spool,
        *,
        phase: random.Random,
        on_change: Callable[[], None],
    ) -> None:
        self._config = config
        self._sources = sources
        self._on_change = on_change
        self.broken: dict[str, str] = {}
        """By watcher: why it failed; an entry stays until the watcher runs well again."""
        self._observed: set[str] = set()
        ports, sampling = config.ports, config.sampling
        self.link = LinkWatcher(
            ports,
            sources,
            clock,
            outbox.emit,
            marks=spool.marks,
            set_mark=outbox.mark,
            sampling=sampling,
            origin=config.origin,
        )
        details, modules, phy, files = sources.details, sources.modules, sources.phy, sources.files
        self.details = PerPort(
            "link-details",
            {
                name: LinkDetailWatcher(
                    name, port, details, clock, outbox.emit, origin=config.origin, on_change=on_change
                )
                for name, port in ports.items()
                if details is not None
            },
        )
        self.counters = (
            None
            if sources.counters is None or not sampling.counters_s
            else CounterWatcher(
                ports,
                sources.counters,
                clock,
                outbox.emit,
                every_s=sampling.counters_s,
                origin=config.origin,
                on_change=on_change,
            )
        )
        self.optics = PerPort(
            "optics",
            {
                name: OpticsWatcher(
                    name,
                    port,
                    modules,
                    clock,
                    outbox.emit,
                    sampling=sampling,
                    phase=phase,
                    timings=config.modules,
                    on_change=on_change,
                )
                for name, port in ports.items()
                if modules is not None
            },
        )
        self.firmware = None if phy is None else FirmwareWatcher(ports, phy, clock, outbox.emit, on_change=on_change)
        has_rdma = any(port.rdma is not None for port in ports.values())
        self.verbs = (
            None if sources.verbs is None or not has_rdma else VerbsPorts(ports, sources.verbs, on_change=on_change)
        )
        self.probe = Probe(
            config.host,
            ports,
            sources.datagrams,
            clock,
            outbox.emit,
            carrier=self.link.carrier,
            rdma=self._rdma_active,
            config=config.probe,
            origin=config.origin,
            on_port=on_change,
            verbs=self.verbs,
        )
        self.rdma = PerPort(
            "rdma",
            {
                name: RdmaWatcher(
                    name,
                    port.rdma,
                    port.ip_address,
                    files,
                    clock,
                    outbox.emit,
                    carrier=self.link.carrier,
                    sampling=sampling,
                    on_active=self.probe.rdma_changed,
                    verbs=self.verbs,
                    late_ns=sources.late_ns,
                )
                for name, port in ports.items()
                if files is not None and port.rdma is not None
            },
        )
        if self.verbs is not None:
            self.verbs.on_event.append(self._device_event)
        self.rc = (
            None
            if self.verbs is None or not config.rc.measure
            else RcRecovery(
                ports,
                self.verbs,
                clock,
                outbox.emit,
                carrier=self.link.carrier,
                say=self.probe.say,
                config=config.rc,
                origin=config.origin,
            )
        )
        if self.rc is not None:
            self.probe.on_offer.append(self.rc.take)
        self.link.on_carrier.append(self._carrier_changed)
        self.link.on_presence.append(self._presence_changed)

    @property
    def busy(self) -> bool:
        """Whether a port is observed."""
        return bool(self._observed)

    def runs(self) -> Sequence[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """Name and body of each watcher's task."""
        every: dict[str, Watcher | None] = {
            link.SOURCE: self.link,
            link_details.SOURCE: self.details,
            optics.SOURCE: self.optics,
            firmware.SOURCE: self.firmware,
            verbs_ports.SOURCE: self.verbs,
            rdma.SOURCE: self.rdma,
            counters.SOURCE: self.counters,
            probe.SOURCE: self.probe,
            rc.NAME: self.rc,
        }
        return [(name, watcher.run) for name, watcher in every.items() if watcher]

    def hurry(self) -> None:
        """Poll at once: a source has connected or disconnected."""
        self.probe.hurry()
        for optics_watcher in self.optics.values():
            optics_watcher.hurry()
        for rdma_watcher in self.rdma.values():
            rdma_watcher.hurry()

    async def begin(self, reconfiguration: str, peers: Sequence[Peer]) -> None:
        """Observe the ports of `peers`; returns after the first poll of each port, or after `BASELINE_S`."""
        names = [peer.port.rpartition(".")[2] for peer in peers]
        self._observed.update(names)
        for name in names:
            self.link.begin(name)
            if self.firmware is not None:
                self.firmware.begin(name)
        looks = [watchers[name].begin() for watchers in (self.optics, self.rdma) for name in names if name in watchers]
        tasks = [asyncio.ensure_future(look) for look in looks]
        for peer in peers:
            self.probe.begin(reconfiguration, peer)
            if self.rc is not None:
                self.rc.begin(reconfiguration, peer)
        if tasks:
            try:
                await asyncio.wait(tasks, timeout=BASELINE_S)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def recovered(self, ports: tuple[str, ...]) -> None:
        """Wait until the RC sends of the dark time have completed on these ports, at most `RECOVERY_S`."""
        if self.rc is not None:
            await self.rc.wait(ports, RECOVERY_S)

    def end(self, port: str) -> None:
        self._observed.discard(port)
        self.link.end(port)
        self.probe.end(port)
        for watchers in (self.optics, self.rdma):
            if port in watchers:
                watchers[port].end()
        for watcher in (self.firmware, self.rc):
            if watcher is not None:
                watcher.end(port)

    def observations(self, port: str) -> dict[str, Observation]:
        """What was seen of a port since its observation began, by instant."""
        none = "this host has no source of it"
        optics, firmware, rdma = self.optics.get(port), self.firmware, self.rdma.get(port)
        no_rdma = "no RDMA device is configured for it" if self.rdma else f"{none}, or no RDMA device is configured"
        return {
            "light": _none(none) if optics is None else optics.observation(),
            "firmware": _none(none) if firmware is None else firmware.observation(port),
            "carrier": self.link.observation(port),
            "rdma": _none(no_rdma) if rdma is None else rdma.observation(),
            "ready": self.probe.observation(port),
        }

    def note(self, port: str) -> PortNote:
        config = self._config.ports[port]
        reading = self.link.reading(port)
        present = reading is not None and reading.present
        return PortNote(
            interface=config.interface,
            present=present,
            ip=config.ip,
            carrier=reading.carrier if reading is not None and present else None,
            carrier_changes=reading.carrier_changes if reading is not None and present else None,
            probe_port=self.probe.udp_port(port),
            verbs=None if self.verbs is None else self.verbs.address(port),
            sources=self._source_notes(port),
        )

    def states(self, port: str) -> dict[str, bool | None]:
        """The present state of a port, by instant; None: unknown."""
        return {
            "light": self.optics[port].lit if port in self.optics else None,
            "firmware": None if self.firmware is None else self.firmware.up(port),
            "carrier": self.link.carrier(port),
            "rdma": self._rdma_active(port),
        }

    def _source_notes(self, port: str) -> dict[str, SourceNote]:
        here = SourceNote(sees=[], origin=self._config.origin)
        none = SourceNote(sees=[], origin=self._config.origin, why_not="this host has no source of it")
        sources = self._sources
        notes = {} if self.verbs is None else {verbs_ports.SOURCE: self._verbs_note(port, self.verbs)}
        return notes | {
            link.SOURCE: self._note(
                link.SOURCE, ["carrier", "interface"], sources.link_note(), self.link.why_not(port)
            ),
            link_details.SOURCE: self._note(link_details.SOURCE, ["link-state"], here, self.details[port].why_not)
            if self.details
            else none,
            optics.SOURCE: none
            if sources.modules is None
            else self._note(
                optics.SOURCE,
                ["dark", "light"],
                sources.modules.note,
                self.optics[port].why_not,
                limits=self.optics[port].limits(),
            ),
            firmware.SOURCE: none
            if sources.phy is None or self.firmware is None
            else self._note(firmware.SOURCE, ["firmware"], sources.phy.note, self.firmware.why_not(port)),
            rdma.SOURCE: none
            if sources.files is None
            else self._note(
                rdma.SOURCE,
                ["rdma"],
                sources.files.note,
                self.rdma[port].why_not if port in self.rdma else "no RDMA device is configured for it",
            ),
            counters.SOURCE: none
            if sources.counters is None
            else self._note(
                counters.SOURCE,
                ["counters"],
                here,
                "sampling.counters_s is 0: they are not read" if self.counters is None else self.counters.why_not(port),
            ),
            probe.SOURCE: self._note(probe.SOURCE, ["ready"], sources.datagrams_note(), self.probe.why_not(port)),
        }

    def _verbs_note(self, port: str, verbs: VerbsPorts) -> SourceNote:
        here, why_no_datagrams = SourceNote(sees=[], origin=self._config.origin), verbs.why_no_datagrams(port)
        return self._note(
            verbs_ports.SOURCE,
            ["rdma"] if why_no_datagrams else ["rdma", "ready"],
            here,
            verbs.why_not(port),
            limits=f"ready is probed by UDP: {why_no_datagrams}" if why_no_datagrams else "",
        )

    def _note(self, watcher: str, sees: list[str], note: SourceNote, why_not: str, *, limits: str = "") -> SourceNote:
        why_not = note.why_not or self.broken.get(watcher, "") or why_not
        return SourceNote(
            sees=[] if why_not else sees, origin=note.origin, why_not=why_not, limits="" if why_not else limits
        )

    def _rdma_active(self, port: str) -> bool | None:
        return self.rdma[port].active if port in self.rdma else None

    def _device_event(self, port: str, event: PortEvent, at_ns: int) -> None:
        if port in self.rdma:
            self.rdma[port].take(event, at_ns)

    def _carrier_changed(self, port: str, reading: LinkReading) -> None:
        if port in self.rdma:
            self.rdma[port].carrier_changed(reading)
        if port in self.details:
            self.details[port].changed()
        earliest_ns = 0 if reading.earliest_ns is None else reading.earliest_ns
        self.probe.carrier_changed(port, carrier=reading.carrier, earliest_ns=earliest_ns)
        if self.rc is not None:
            self.rc.carrier_changed(port, carrier=reading.carrier, earliest_ns=earliest_ns)

    def _presence_changed(self, port: str, reading: LinkReading) -> None:
        self.probe.interface_changed(port, present=reading.present)
        if self.verbs is not None:
            self.verbs.hurry()
        if port in self.details:
            self.details[port].changed()
        self._on_change()


def _none(why_not: str) -> Observation:
    return Observation(seen=False, why_not=why_not)
