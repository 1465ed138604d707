"""Metrics for Prometheus, made from documents and nothing else."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from hwd.telemetry.reading import mapping, number, rows, text
from hwd.telemetry.series import Buckets, Series
from hwd_drivers.kit.documents import Document

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_NS_IN_S = 1e9

_COMMAND_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
"""A TL1 exchange on a twin takes 1 ms, a Polatis 200 ms, a robotic panel minutes."""
_STAGE_BUCKETS_S = (
    20e-6,
    50e-6,
    80e-6,
    150e-6,
    500e-6,
    0.002,
    0.01,
    0.025,
    0.05,
    0.1,
    0.2,
    0.5,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    10,
    30,
)
"""From the kernel's carrier, 70 us after the firmware, to a NIC that takes 10 s after a short dwell."""


class Metrics(Collector):
    """A `Sink` with a registry of its own. What is not known has no series: a dark port has no power, a lost host no carrier."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = CollectorRegistry() if registry is None else registry
        self._interfaces: dict[tuple[str, str], str] = {}
        self._leases: dict[str, None] = {}

        self._build_info = Series("hwd_build_info", "Version of the daemon", "version")
        self._switch_up = Series("hwd_switch_up", "1 while there is a session with the switch", "switch")
        self._crossconnects = Series("hwd_crossconnects", "Crossconnects that the switch reports", "switch", "state")
        self._commands = Series(
            "hwd_switch_commands", "Commands sent to a switch", "switch", "verb", "outcome", counter=True
        )
        self._power = Series("hwd_port_power_dbm", "Optical power; absent where dark", "switch", "port")
        self._reconfigurations = Series("hwd_reconfigurations", "Reconfigurations that ended", "outcome", counter=True)
        self._carrier = Series("hwd_nic_carrier", "1 while the kernel has carrier", "host", "device")
        self._carrier_changes = Series(
            "hwd_nic_carrier_changes", "Carrier changes that the kernel counted", "host", "device", counter=True
        )
        self._rdma = Series("hwd_rdma_port_active", "1 while the RDMA port is active", "host", "device")
        self._link_ready = Series("hwd_link_ready", "1 from the first transfer until the carrier falls", "link")
        self._agent_up = Series("hwd_agent_up", "1 while the agent is there", "host")
        self._events = Series("hwd_agent_events", "Events that an agent reported", "host", counter=True)
        self._lost = Series("hwd_agent_events_lost", "Events that an agent could not hold or see", "host", counter=True)
        self._offset = Series("hwd_clock_offset_seconds", "Clock of a host minus ours", "host")
        self._error = Series("hwd_clock_error_seconds", "Bound of the error of that offset", "host")
        self._bus = Series("hwd_bus_connected", "1 while there is a broker")
        self._garbage = Series("hwd_bus_garbage", "Messages that nobody could use", "host", counter=True)
        self._lease_count = Series("hwd_leases", "Leases in force")
        self._runs = Series("hwd_runs", "Runs that ended", "outcome", counter=True)
        self._lag = Series("hwd_event_loop_lag_seconds", "Longest that a timer of ours waited lately")

        self._command_seconds = Buckets(
            "hwd_switch_command_seconds",
            "From the first byte sent to the whole answer",
            "switch",
            bounds=_COMMAND_BUCKETS_S,
        )
        self._reconfiguration_seconds = Buckets(
            "hwd_reconfiguration_seconds", "From the start of an apply to its end", bounds=_STAGE_BUCKETS_S
        )
        self._stage_seconds = Buckets(
            "hwd_stage_seconds", "Stages of links that were reconfigured", "stage", bounds=_STAGE_BUCKETS_S
        )
        self._lease_count.set(0)
        self.registry.register(self)

    def render(self) -> bytes:
        """The text format, as CONTENT_TYPE says."""
        return generate_latest(self.registry)

    def collect(self) -> Iterable[Metric]:
        return [series.family() for series in self._series()]

    def retain(self, *, switches: Iterable[str], hosts: Iterable[str]) -> None:
        """After a change of the testbed: nothing is said any more of switches and hosts that are not in it."""
        kept_switches, kept_hosts = frozenset(switches), frozenset(hosts)
        for series in self._series():
            match series.labels[:1]:
                case ("switch",):
                    series.keep(kept_switches)
                case ("host",):
                    series.keep(kept_hosts)
        self._interfaces = {key: name for key, name in self._interfaces.items() if key[0] in kept_hosts}

    def __call__(self, document: Document) -> None:
        data = document.data
        subject, _, _ = document.kind.partition(".")
        match subject:
            case "switch":
                self._take_switch(document.kind, text(data, "switch"), data)
            case "host" | "clock":
                self._take_host(document.kind, text(data, "host"), data)
            case "lease":
                self._take_lease(document.kind, text(data, "lease"))
            case "timeline":
                self._take_timeline(data)
            case _:
                self._take_rest(document.kind, data)

    def _take_switch(self, kind: str, switch: str, data: Mapping[str, Any]) -> None:
        match kind:
            case "switch.up":
                self._switch_up.set(1, switch)
            case "switch.down":
                self._switch_up.set(0, switch)
                self._crossconnects.drop(switch)
                self._power.drop(switch)
            case "switch.read":
                self._crossconnects.drop(switch)
                for state, count in Counter(text(row, "state") for row in rows(data, "crossconnects")).items():
                    self._crossconnects.set(count, switch, state)
            case "switch.command":
                self._commands.add(1, switch, text(data, "verb"), text(data, "outcome"))
                if (seconds := number(data, "seconds")) is not None:
                    self._command_seconds.observe(seconds, switch)
            case "switch.power":
                for end in (powers := mapping(data, "power_dbm")):
                    self._power.drop(switch, end)
                    if (power_dbm := number(powers, end)) is not None:
                        self._power.set(power_dbm, switch, end)

    def _take_host(self, kind: str, host: str, data: Mapping[str, Any]) -> None:
        match kind:
            case "host.up":
                self._agent_up.set(1, host)
            case "host.down":
                self._agent_up.set(0, host)
                for series in (self._carrier, self._carrier_changes, self._rdma, self._offset, self._error):
                    series.drop(host)
            case "host.birth":
                self._agent_up.set(1, host)
                self._take_ports(host, mapping(data, "ports"))
            case "host.event":
                self._events.add(1, host)
                self._take_event(host, text(data, "port"), text(data, "type"), mapping(data, "data"))
            case "host.lost":
                self._lost.add(max(0.0, number(data, "count") or 0.0), host)
            case "host.garbage":
                self._garbage.add(number(data, "count") or 1.0, host)
            case "clock.aligned":
                for series, key in ((self._offset, "offset_ns"), (self._error, "error_ns")):
                    if (value_ns := number(data, key)) is not None:
                        series.set(value_ns / _NS_IN_S, host)

    def _take_ports(self, host: str, ports: Mapping[str, Any]) -> None:
        for series in (self._carrier, self._carrier_changes, self._rdma):
            series.drop(host)
        for port in ports:
            note = mapping(ports, port)
            device = self._interfaces[host, port] = text(note, "interface") or port
            self._take_carrier(host, device, note)

    def _take_carrier(self, host: str, device: str, note: Mapping[str, Any]) -> None:
        if (carrier := number(note, "carrier")) is not None:
            self._carrier.set(carrier, host, device)
        if (changes := number(note, "carrier_changes")) is not None:
            self._carrier_changes.set(max(0.0, changes), host, device)

    def _take_event(self, host: str, port: str, type: str, data: Mapping[str, Any]) -> None:
        device = self._interfaces.get((host, port), port)
        match type:
            case "carrier":
                self._take_carrier(host, device, data)
                if data.get("carrier") is False:
                    self._end_fell(f"{host}.{port}")
            case "interface" if data.get("present") is False:
                for series in (self._carrier, self._carrier_changes, self._rdma):
                    series.drop(host, device)
                self._end_fell(f"{host}.{port}")
            case "rdma" if (active := number(data, "active")) is not None:
                self._rdma.set(active, host, device)

    def _take_timeline(self, data: Mapping[str, Any]) -> None:
        for link in rows(data, "links"):
            name = text(link, "link")
            self._forget_links_at(name.split("<->"))
            ready = [instant for instant in rows(link, "instants") if instant.get("name") == "ready"]
            known = [text(instant, "knowledge") in ("seen", "never-left") for instant in ready]
            self._link_ready.set(float(any(known)), name)
            for stage in rows(link, "stages"):
                if (seconds := number(stage, "seconds")) is not None:
                    self._stage_seconds.observe(seconds, text(stage, "name"))

    def _take_lease(self, kind: str, lease: str) -> None:
        if kind == "lease.released":
            self._leases.pop(lease, None)
        else:
            self._leases[lease] = None
        self._lease_count.set(len(self._leases))

    def _take_rest(self, kind: str, data: Mapping[str, Any]) -> None:
        match kind:
            case "daemon.started":
                self._build_info.drop()
                self._build_info.set(1, text(data, "version"))
            case "daemon.lag" if (lag_s := number(data, "seconds")) is not None:
                self._lag.set(lag_s)
            case "bus.up" | "bus.down":
                self._bus.set(float(kind == "bus.up"))
            case "reconfiguration.ended":
                self._reconfigurations.add(1, text(data, "outcome"))
                if (seconds := number(data, "seconds")) is not None:
                    self._reconfiguration_seconds.observe(seconds)
            case "run.ended":
                self._runs.add(1, text(data, "outcome"))

    def _end_fell(self, end: str) -> None:
        for link in self._link_ready.first_labels():
            if end in link.split("<->"):
                self._link_ready.set(0, link)

    def _forget_links_at(self, ends: list[str]) -> None:
        """A NIC port is in one link at a time: whatever used one of these ends before is no link any more."""
        for link in self._link_ready.first_labels():
            if not set(ends).isdisjoint(link.split("<->")):
                self._link_ready.drop(link)

    def _series(self) -> Iterator[Series | Buckets]:
        return (value for value in vars(self).values() if isinstance(value, Series | Buckets))
